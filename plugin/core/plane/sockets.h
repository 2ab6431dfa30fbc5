// The few socket calls that both ends of the rendezvous make. IPv4, never blocking, never SIGPIPE.
//
// Thread: any; no state. Ownership: the caller's descriptors.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <string>

namespace stepgate::plane {

double steady_seconds();
// Throws std::runtime_error where the name stands for no IPv4 address.
in_addr resolve(const std::string& host);
bool is_local(in_addr address);
// A listening descriptor, or -1 with errno set.
int listen_at(in_addr address, std::uint16_t port);
std::uint16_t port_of(int fd);
std::string address_of(int fd);
std::string errno_text(int code);

}  // namespace stepgate::plane

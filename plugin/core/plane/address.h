// Where the plane meets, as it is written: "host:port".
//
// Thread: any; pure functions, no name server is asked.
#pragma once

#include <cstdint>
#include <string>

namespace stepgate::plane {

// "host:port" of a numeric IPv4 address or a name; false for anything else.
bool split_address(const std::string& text, std::string* host, std::uint16_t* port);

// Whether it is written as an address of this machine alone: localhost or 127.*.
bool on_loopback(const std::string& host);

}  // namespace stepgate::plane

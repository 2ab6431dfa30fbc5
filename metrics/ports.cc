#include "metrics/ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace stepgate::metrics {
namespace {

BindResult bind_once(const sockaddr_in& where, std::string* why) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    *why = std::strerror(errno);
    return BindResult::kBadAddress;
  }
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // as the server does
  // listen too: with reuse, two may bind one port and only the second to listen is refused.
  const bool ok =
      bind(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0 && listen(fd, 1) == 0;
  const int error = ok ? 0 : errno;
  close(fd);
  if (ok) return BindResult::kFree;
  if (error == EADDRINUSE || error == EACCES) return BindResult::kTaken;
  *why = std::strerror(error);
  return BindResult::kBadAddress;
}

bool is_ipv6(const std::string& address) {
  in6_addr parsed{};
  return inet_pton(AF_INET6, address.c_str(), &parsed) == 1;
}

}  // namespace

std::string numeric_address(const std::string& address) {
  return address == "localhost" ? "127.0.0.1" : address;
}

std::vector<std::uint16_t> candidate_ports(const ExpositionOptions& o) {
  if (o.first_port == 0) return {0};
  std::vector<std::uint16_t> ports;
  const auto add = [&ports](int port) {
    if (port > 0 && port <= kHighestPort) ports.push_back(static_cast<std::uint16_t>(port));
  };
  add(o.first_port + o.local_rank);
  const int above = o.first_port + (o.local_world > o.local_rank ? o.local_world : o.local_rank + 1);
  for (int i = 0; i < kFallbackPorts; ++i) add(above + i);
  return ports;
}

BindResult probe_port(const std::string& address, std::uint16_t port, std::string* why) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  if (inet_pton(AF_INET, numeric_address(address).c_str(), &where.sin_addr) == 1) {
    return bind_once(where, why);
  }
  *why = is_ipv6(address) ? "it is an IPv6 address, and Debian's civetweb is built without IPv6"
                          : "it is neither a numeric IPv4 address nor localhost";
  return BindResult::kBadAddress;
}

}  // namespace stepgate::metrics

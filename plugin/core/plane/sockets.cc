#include "plugin/core/plane/sockets.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <system_error>

namespace stepgate::plane {
namespace {

constexpr int kBacklog = 1024;

sockaddr_in endpoint(in_addr address, std::uint16_t port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  a.sin_addr = address;
  return a;
}

}  // namespace

double steady_seconds() {
  using std::chrono::steady_clock;
  return std::chrono::duration<double>(steady_clock::now().time_since_epoch()).count();
}

std::string errno_text(int code) {
  return std::system_category().message(code);
}

in_addr resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (code != 0 || found == nullptr) {
    throw std::runtime_error("'" + host + "' is no IPv4 address: " + ::gai_strerror(code));
  }
  const in_addr address = reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr;
  ::freeaddrinfo(found);
  return address;
}

bool is_local(in_addr address) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const sockaddr_in a = endpoint(address, 0);
  const bool ours = ::bind(fd, reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0;
  ::close(fd);
  return ours;
}

int listen_at(in_addr address, std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int on = 1;  // a restarted job takes the port of the one before
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in a = endpoint(address, port);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0 && ::listen(fd, kBacklog) == 0) {
    return fd;
  }
  const int code = errno;
  ::close(fd);
  errno = code;
  return -1;
}

std::uint16_t port_of(int fd) {
  sockaddr_in a{};
  socklen_t size = sizeof a;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&a), &size) == 0 ? ntohs(a.sin_port) : 0;
}

std::string address_of(int fd) {
  sockaddr_in a{};
  socklen_t size = sizeof a;
  char text[INET_ADDRSTRLEN] = "";
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&a), &size) == 0) {
    ::inet_ntop(AF_INET, &a.sin_addr, text, sizeof text);
  }
  return text;
}

}  // namespace stepgate::plane

#include "collectives/ucx/doorbell.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <random>

namespace stepgate::transport {
namespace {

// The byte 0 before the name makes it abstract: no file, gone with the socket.
socklen_t address_of(const Doorbell::Name& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  const size_t length = strnlen(name.text, sizeof name.text);
  std::memcpy(address->sun_path + 1, name.text, length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

}  // namespace

// Random: a name that a dead rank had must not become another program's.
Doorbell::Doorbell() {
  std::random_device device;
  const unsigned numbers[] = {device(), device(), device()};
  std::snprintf(name_.text, sizeof name_.text, "stepgate-%08x%08x%08x", numbers[0], numbers[1], numbers[2]);
  socket_ = Fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_un address;
  const socklen_t length = address_of(name_, &address);
  if (!socket_.open() || bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0)
    socket_.reset();
}

bool Doorbell::ring(const Name& other) const {
  sockaddr_un address;
  const socklen_t length = address_of(other, &address);
  const char token = 1;
  const auto sent = sendto(socket_.get(), &token, 1, MSG_DONTWAIT | MSG_NOSIGNAL,
                           reinterpret_cast<sockaddr*>(&address), length);
  return sent == 1 || errno == EAGAIN || errno == EWOULDBLOCK;
}

void Doorbell::silence() const {
  char tokens[64];
  while (recv(socket_.get(), tokens, sizeof tokens, MSG_DONTWAIT) >= 0) {
  }
}

}  // namespace stepgate::transport

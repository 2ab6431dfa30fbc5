#include "integration/command/run/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <stdexcept>

namespace stepgate::command {
namespace {

constexpr std::uint16_t kLowest = 20480;
constexpr std::uint16_t kHighest = 32000;
constexpr int kTries = 1000;

bool is_free(std::uint16_t port) {
  const int socket_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) return false;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound = bind(socket_fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(socket_fd);
  return bound;
}

}  // namespace

std::uint16_t free_port_pair() {
  std::random_device random;
  std::uniform_int_distribution<int> pick(kLowest, kHighest);
  for (int i = 0; i < kTries; ++i) {
    const auto port = static_cast<std::uint16_t>(pick(random));
    if (is_free(port) && is_free(static_cast<std::uint16_t>(port + 1))) return port;
  }
  throw std::runtime_error("no two neighbouring free ports between 20480 and 32000 on 127.0.0.1");
}

}  // namespace stepgate::command

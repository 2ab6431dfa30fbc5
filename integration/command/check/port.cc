#include "integration/command/check/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace stepgate::command {
namespace {

constexpr std::uint64_t kPorts = 65536;  // that there are

// 0 where a server could listen there, else errno. As the server does: ports in TIME_WAIT are free.
int try_to_listen(const in_addr& address, int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr = address;
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool free =
      bind(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0 && listen(fd, 1) == 0;
  const int error = free ? 0 : errno;
  close(fd);
  return error;
}

Line look_at_range(const std::string& text, const in_addr& address, int first, int ranks) {
  std::string taken;
  for (int port = first; port < first + ranks && port <= 65535; ++port) {
    const int error = try_to_listen(address, port);
    if (error == EADDRINUSE) {
      taken += (taken.empty() ? "" : ", ") + std::to_string(port);
    } else if (error != 0) {
      return {
          "port", State::kWrong,
          "cannot listen on " + text + " port " + std::to_string(port) + ": " + std::strerror(error),
          "set STEPGATE_METRICS_ADDR to an address of this machine, STEPGATE_METRICS_PORT to 1024 or more"};
    }
  }
  const std::string range =
      std::to_string(first) + (ranks > 1 ? " to " + std::to_string(first + ranks - 1) : "");
  if (taken.empty())
    return {"port", State::kOk, range + " on " + text + (ranks > 1 ? " are free" : " is free")};
  return {"port", State::kNote,
          taken + " on " + text + " is taken: the rank there moves to a free port above",
          "stop what listens (ss -ltnp), set STEPGATE_METRICS_PORT, or let Prometheus read "
          "STEPGATE_METRICS_FILE_SD_DIR, which tells the ports that were taken"};
}

}  // namespace

std::vector<Line> look_at_port(const gate::Configuration& settings) {
  if (settings.mode == gate::Mode::kOff) {
    return {{"port", State::kNote, "STEPGATE_MODE=off: no page is served", "unset it to see metrics"}};
  }
  if (!settings.metrics) {
    return {{"port", State::kNote, "STEPGATE_METRICS=off: no page is served", "unset it to see metrics"}};
  }
  if (settings.metrics_port == 0) return {{"port", State::kOk, "0: each rank takes a free one"}};
  const std::string& host = settings.metrics_address;  // numeric or localhost: the reader sees to it
  in_addr address{};
  inet_pton(AF_INET, host == "localhost" ? "127.0.0.1" : host.c_str(), &address);
  return {look_at_range(host, address, static_cast<int>(settings.metrics_port),
                        static_cast<int>(std::min(settings.local_world, kPorts)))};
}

}  // namespace stepgate::command

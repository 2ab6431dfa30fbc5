#include "integration/command/check/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace stepgate::command {
namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

bool whole_number(const std::string& text, int low, int high, int* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && *out >= low && *out <= high;
}

Line refused(const std::string& name, const std::string& value, const std::string& allowed) {
  return {"port", State::kWrong, name + "='" + value + "' is refused by the plugin; allowed: " + allowed,
          "correct or unset it"};
}

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

std::vector<Line> look_at_port() {
  if (variable("STEPGATE_METRICS", "on") == "off") {
    return {{"port", State::kNote, "STEPGATE_METRICS=off: no page is served", "unset it to see metrics"}};
  }
  const std::string host = variable("STEPGATE_METRICS_ADDR", "127.0.0.1");
  const std::string port = variable("STEPGATE_METRICS_PORT", "19470");
  const std::string world = variable("LOCAL_WORLD_SIZE", "1");
  int first = 0, ranks = 1;
  in_addr address{};
  if (inet_pton(AF_INET, host == "localhost" ? "127.0.0.1" : host.c_str(), &address) != 1) {
    return {refused("STEPGATE_METRICS_ADDR", host, "a numeric IPv4 address of this machine, or localhost")};
  }
  if (!whole_number(port, 0, 65535, &first)) {
    return {refused("STEPGATE_METRICS_PORT", port, "0 to 65535; 0 picks a free one")};
  }
  if (!whole_number(world, 1, 65535, &ranks)) return {refused("LOCAL_WORLD_SIZE", world, ">= 1")};
  if (first == 0) return {{"port", State::kOk, "0: each rank takes a free one"}};
  return {look_at_range(host, address, first, ranks)};
}

}  // namespace stepgate::command

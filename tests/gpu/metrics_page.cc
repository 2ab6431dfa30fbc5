#include "tests/gpu/metrics_page.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <sstream>

namespace stepgate::gpu {
namespace {

int connected(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{10, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

std::string fetch_page(const std::string& url) {
  const std::size_t host_at = url.find("//") + 2;
  const std::size_t colon = url.find(':', host_at);
  const std::size_t slash = url.find('/', host_at);
  if (url.find("//") == std::string::npos || colon == std::string::npos || slash == std::string::npos)
    return "";
  const int fd = connected(url.substr(host_at, colon - host_at), std::atoi(url.c_str() + colon + 1));
  if (fd < 0) return "";
  const std::string request = "GET " + url.substr(slash) + " HTTP/1.0\r\nConnection: close\r\n\r\n";
  std::string answer;
  if (send(fd, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size())) {
    char buffer[16384];
    for (ssize_t got; (got = recv(fd, buffer, sizeof buffer, 0)) > 0;)
      answer.append(buffer, static_cast<std::size_t>(got));
  }
  close(fd);
  const std::size_t body = answer.find("\r\n\r\n");
  return body == std::string::npos ? "" : answer.substr(body + 4);
}

double sum_of_family(const std::string& page, const std::string& family) {
  std::istringstream lines(page);
  double sum = 0;
  bool any = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(family) || line.size() == family.size()) continue;
    const char next = line[family.size()];
    if (next != ' ' && next != '{') continue;
    sum += std::strtod(line.c_str() + line.rfind(' '), nullptr);
    any = true;
  }
  return any ? sum : -1;
}

int families_of(const std::string& page) {
  std::istringstream lines(page);
  int n = 0;
  for (std::string line; std::getline(lines, line);) n += line.starts_with("# TYPE stepgate_");
  return n;
}

}  // namespace stepgate::gpu

#include "integration/examples/charlm_report/scrape.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace stepgate::charlm_report {
namespace {

constexpr int kSeconds = 10;

struct Url {
  std::string host;
  std::string port;
  std::string path;
};

Url split(const std::string& url) {
  const std::string scheme = "http://";
  const std::size_t slash = url.find('/', scheme.size());
  const std::size_t colon = url.find(':', scheme.size());
  if (!url.starts_with(scheme) || slash == std::string::npos || colon > slash) {
    throw std::runtime_error("'" + url + "' is no http://ADDRESS:PORT/PATH");
  }
  return {url.substr(scheme.size(), colon - scheme.size()), url.substr(colon + 1, slash - colon - 1),
          url.substr(slash)};
}

class Connection {
 public:
  explicit Connection(const Url& url) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(url.port.c_str())));
    const timeval limit{kSeconds, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (inet_pton(AF_INET, url.host.c_str(), &address.sin_addr) != 1 ||
        connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      close(fd_);
      throw std::runtime_error("nobody answers at " + url.host + ":" + url.port);
    }
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { close(fd_); }

  std::string ask(const std::string& request) {
    std::string answer;
    if (send(fd_, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
      return answer;
    }
    char buffer[16384];
    for (ssize_t got; (got = recv(fd_, buffer, sizeof buffer, 0)) > 0;) {
      answer.append(buffer, static_cast<std::size_t>(got));
    }
    return answer;
  }

 private:
  int fd_;
};

// What a look at a page should show; the rest is there for Prometheus.
bool worth_showing(std::string_view line) {
  static constexpr std::string_view kFamilies[] = {"stepgate_steps_",          "stepgate_loss_scale",
                                                   "stepgate_gradient_norm ",  "stepgate_offending_rank",
                                                   "stepgate_anomalies_total", "stepgate_enforcing"};
  for (const std::string_view family : kFamilies) {
    if (line.starts_with(family)) return true;
  }
  return false;
}

}  // namespace

// HTTP/1.0: the body ends with the connection and is never in chunks.
std::string fetch_page(const std::string& url) {
  const Url parts = split(url);
  Connection connection(parts);
  const std::string answer = connection.ask("GET " + parts.path + " HTTP/1.0\r\nHost: " + parts.host +
                                            "\r\nConnection: close\r\n\r\n");
  const std::size_t body = answer.find("\r\n\r\n");
  if (answer.find(" 200 ") > answer.find("\r\n") || body == std::string::npos) {
    throw std::runtime_error(url + " does not answer with a page");
  }
  return answer.substr(body + 4);
}

std::string excerpt(const std::string& page) {
  std::string lines;
  std::istringstream stream(page);
  for (std::string line; std::getline(stream, line);) {
    if (worth_showing(line)) lines += "  " + line + "\n";
  }
  return lines;
}

bool has_family(const std::string& page, const std::string& family) {
  return page.find("# TYPE " + family + " ") != std::string::npos;
}

}  // namespace stepgate::charlm_report

#include "tests/integration/prometheus/prometheus.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "tests/metrics/page_text.h"

namespace stepgate::test {
namespace {

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof where;
  const bool ok = bind(fd, reinterpret_cast<sockaddr*>(&where), size) == 0 &&
                  getsockname(fd, reinterpret_cast<sockaddr*>(&where), &size) == 0;
  close(fd);
  if (!ok) throw std::runtime_error("no free port on the loopback address");
  return ntohs(where.sin_port);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const unsigned char c : text) {
    char hex[4];
    std::snprintf(hex, sizeof hex, "%%%02X", c);
    out += std::isalnum(c) != 0 ? std::string(1, static_cast<char>(c)) : hex;
  }
  return out;
}

}  // namespace

bool prometheus_is_installed() {
  return run({"prometheus", "--version"}).status == 0;
}

Prometheus::Prometheus(const std::string& config) {
  std::ofstream(folder_.file("prometheus.yml")) << config;
  const Outcome checked = run({"promtool", "check", "config", folder_.file("prometheus.yml")});
  if (checked.status != 0) throw std::runtime_error("promtool: " + checked.out + checked.err);
  // Somebody else may take the port between the look and the start.
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (start()) return;
  }
  throw std::runtime_error("prometheus does not come up: " + last_words());
}

Prometheus::~Prometheus() {
  if (process_ && !process_->ended()) kill(process_->pid(), SIGTERM);
  if (process_) process_->finish(std::chrono::seconds(20));
}

bool Prometheus::start() {
  port_ = free_port();
  // Not left behind by a test that ctest kills.
  process_ = std::make_unique<Process>(std::vector<std::string>{
      "setpriv", "--pdeathsig", "KILL", "prometheus", "--config.file=" + folder_.file("prometheus.yml"),
      "--storage.tsdb.path=" + folder_.file("data"),
      "--web.listen-address=127.0.0.1:" + std::to_string(port_), "--log.level=error"});
  return eventually([this] { return ready() || process_->ended(); }) && !process_->ended();
}

bool Prometheus::ready() const {
  return metrics::test::http_get("127.0.0.1", port_, "/-/ready").status == 200;
}

std::vector<Scraped> Prometheus::query(const std::string& expression) const {
  const auto answer =
      metrics::test::http_get("127.0.0.1", port_, "/api/v1/query?query=" + escaped(expression));
  const auto json = nlohmann::json::parse(answer.body, nullptr, false);
  std::vector<Scraped> all;
  if (answer.status != 200 || !json.is_object() || json.value("status", "") != "success") return all;
  for (const auto& series : json["data"]["result"]) {
    all.push_back({series["metric"].get<std::map<std::string, std::string>>(),
                   std::stod(series["value"][1].get<std::string>())});
  }
  return all;
}

std::string Prometheus::last_words() {
  if (!process_) return "";
  if (!process_->ended()) kill(process_->pid(), SIGTERM);
  const Outcome outcome = process_->finish(std::chrono::seconds(20));
  process_.reset();
  return outcome.out + outcome.err;
}

bool eventually(const std::function<bool()>& condition, std::chrono::seconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return true;
}

double value_of(const std::vector<Scraped>& all, const std::string& name,
                const std::map<std::string, std::string>& labels) {
  double value = std::numeric_limits<double>::quiet_NaN();
  int found = 0;
  for (const Scraped& one : all) {
    bool fits = one.labels.at("__name__") == name;
    for (const auto& [label, wanted] : labels) {
      const auto it = one.labels.find(label);
      fits = fits && it != one.labels.end() && it->second == wanted;
    }
    if (!fits) continue;
    value = one.value;
    ++found;
  }
  return found == 1 ? value : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace stepgate::test

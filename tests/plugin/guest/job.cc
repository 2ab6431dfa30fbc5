#include "tests/plugin/guest/job.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

namespace stepgate::test {
namespace {

constexpr std::size_t kCount = 4096;

std::string url_of_page() {
  char url[200] = "";
  need(stepgate_client_metrics_url(url, sizeof url) == STEPGATE_OK && *url != '\0', "metrics_url");
  return url;
}

int connect_to(const std::string& url) {
  const std::size_t colon = url.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::strtol(url.c_str() + colon + 1, nullptr, 10)));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  need(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0, "connect to " + url);
  return fd;
}

std::string get(const std::string& url) {
  const int fd = connect_to(url);
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  need(send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0, "send");
  std::string page;
  char buffer[65536];
  for (ssize_t got; (got = recv(fd, buffer, sizeof buffer, 0)) > 0;) {
    page.append(buffer, static_cast<std::size_t>(got));
  }
  close(fd);
  return page;
}

bool variable_is(const char* name, const char* value) {
  const char* text = std::getenv(name);
  return text != nullptr && std::strcmp(text, value) == 0;
}

// The value of the line of a page that begins so and has all these labels; "" where there is none.
std::string value_of(const std::string& page, const std::string& family,
                     std::initializer_list<const char*> labels = {}) {
  for (std::size_t at = page.find("\n" + family); at != std::string::npos;
       at = page.find("\n" + family, at + 1)) {
    const std::string line = page.substr(at + 1, page.find('\n', at + 1) - at - 1);
    const auto has = [&](const char* label) { return line.find(label) != std::string::npos; };
    if (std::all_of(labels.begin(), labels.end(), has)) return line.substr(line.rfind(' ') + 1);
  }
  return "";
}

}  // namespace

void need(bool condition, const std::string& what) {
  if (condition) return;
  std::printf("failed: %s: %s\n", what.c_str(), stepgate_client_last_error());
  std::fflush(stdout);
  std::_Exit(1);
}

void* symbol(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  need(found != nullptr, std::string("no symbol ") + name);
  return found;
}

ncclUniqueId shared_id(const Where& where, int which) {
  const std::string path = where.folder + "/id" + std::to_string(which);
  ncclUniqueId id{};
  if (where.rank == 0) {
    need(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
    std::ofstream(path + ".new", std::ios::binary).write(id.internal, sizeof id.internal);
    std::filesystem::rename(path + ".new", path);
    return id;
  }
  while (!std::filesystem::exists(path)) usleep(1000);  // alarm() is the deadline
  std::ifstream(path, std::ios::binary).read(id.internal, sizeof id.internal);
  return id;
}

ncclComm_t Job::connect(const Where& where) {
  ncclComm_t comm = nullptr;
  need(ncclCommInitRank(&comm, where.world, shared_id(where, 0), where.rank) == ncclSuccess,
       "ncclCommInitRank");
  return comm;
}

Job::Job(const Where& where, ncclComm_t comm)
    : where_(where),
      observed_(!variable_is("STEPGATE_MODE", "enforce")),
      comm_(comm),
      gradient_(kCount, device_wanted()),
      scratch_(kCount * 4, 1.0f) {
  stepgate_gate_config config{};
  config.size = sizeof config;
  config.world = where.world;
  config.rank = where.rank;
  need(stepgate_client_gate_create(&config, &gate_) == STEPGATE_OK, "gate_create");
  need(stepgate_client_add_group(gate_, comm_, 0) == STEPGATE_OK, "add_group");
  declare();
  if (observed_) return;
  need(stepgate_client_enforce_begin(gate_, nullptr) == STEPGATE_OK, "enforce_begin");
}

void Job::declare() {
  const stepgate_segment segment{"weight", gradient_.data(), gradient_.size()};
  stepgate_range range{};
  range.size = sizeof range;
  range.name = "bucket";
  range.segments = &segment;
  range.segment_count = 1;
  range.compute_type = -1;
  std::uint32_t id = 0;
  need(stepgate_client_declare_range(gate_, &range, &id) == STEPGATE_OK, "declare_range");
}

void Job::step() {
  if (!observed_) need(stepgate_client_step_begin(gate_, nullptr) == STEPGATE_OK, "step_begin");
  std::vector<float> values(gradient_.size(), 1e-40f);
  values[7] = std::numeric_limits<float>::infinity();
  values[8] = std::numeric_limits<float>::quiet_NaN();
  gradient_.fill(values);
  need(ncclAllReduce(gradient_.data(), gradient_.data(), gradient_.size(), ncclFloat32, ncclSum, comm_,
                     nullptr) == ncclSuccess,
       "ncclAllReduce");
  if (observed_) {
    look_at();
  } else {
    decide();
  }
}

void Job::look_at() {
  need(stepgate_client_observe(gate_, "gradient", gradient_.data(), gradient_.size(), STEPGATE_FP32,
                               STEPGATE_PHASE_GRAD_INPUT, nullptr) == STEPGATE_OK,
       "observe");
}

void Job::decide() {
  need(stepgate_client_step_end(gate_, 0, nullptr) == STEPGATE_OK, "step_end");
  stepgate_decision decision{};
  decision.size = sizeof decision;
  need(stepgate_client_step_wait(gate_, 0, &decision) == STEPGATE_OK, "step_wait");
  need(decision.skip == 1, "the step is skipped");
}

namespace {

// A scrape every few milliseconds, for ten seconds: the publisher looks every 50 ms.
bool page_until(const std::function<bool(const std::string&)>& good) {
  const std::string url = url_of_page();
  for (int i = 0; i < 2000; ++i) {
    if (good(get(url))) return true;
    usleep(5000);
  }
  std::printf("not what was wanted:\n%s\n", get(url).c_str());
  return false;
}

}  // namespace

bool Job::scraped(int steps) const {
  return page_until([&](const std::string& page) {
    const std::string seen =
        observed_ ? value_of(page, "stepgate_reductions_total{",
                             {"gate=\"observed\"", "handling=\"scanned\"", "op=\"all_reduce\""})
                  : value_of(page, "stepgate_steps_total ");
    return seen == std::to_string(steps);
  });
}

bool Job::scraped_with(const std::string& line) const {
  return page_until(
      [&](const std::string& page) { return page.find("\n" + line + "\n") != std::string::npos; });
}

void Job::meet() {
  if (where_.rank == 0 && where_.world > 1 && variable_is("STEPGATE_PLANE", "on")) {
    const auto joined = [](const std::string& page) {
      return value_of(page, "stepgate_job_rank_up{", {"rank=\"1\""}) == "1";
    };
    need(page_until(joined), "rank 1 on the plane");
  }
  float one = 1;
  need(ncclAllReduce(&one, &one, 1, ncclFloat32, ncclSum, comm_, nullptr) == ncclSuccess, "meet");
}

}  // namespace stepgate::test

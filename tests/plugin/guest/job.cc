#include "tests/plugin/guest/job.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "tests/plugin/whole_range.h"

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
    : where_(where), comm_(comm), gradient_(kCount, device_wanted()), scratch_(kCount * 4, 1.0f) {
  stepgate_gate_config config{};
  config.size = sizeof config;
  config.world = where.world;
  config.rank = where.rank;
  need(stepgate_client_gate_create(&config, &gate_) == STEPGATE_OK, "gate_create");
  need(stepgate_client_add_group(gate_, comm_, 0) == STEPGATE_OK, "add_group");
  declare();
  need(stepgate_client_enforce_begin(gate_, nullptr) == STEPGATE_OK, "enforce_begin");
}

void Job::declare() {
  const stepgate_segment segment{"weight", gradient_.data(), gradient_.size()};
  const stepgate_range range = whole_range("bucket", segment);
  std::uint32_t id = 0;
  need(stepgate_client_declare_range(gate_, &range, &id) == STEPGATE_OK, "declare_range");
}

void Job::step() {
  need(stepgate_client_step_begin(gate_, nullptr) == STEPGATE_OK, "step_begin");
  std::vector<float> values(gradient_.size(), 1e-40f);
  values[7] = std::numeric_limits<float>::infinity();
  values[8] = std::numeric_limits<float>::quiet_NaN();
  gradient_.fill(values);
  need(ncclAllReduce(gradient_.data(), gradient_.data(), gradient_.size(), ncclFloat32, ncclSum, comm_,
                     nullptr) == ncclSuccess,
       "ncclAllReduce");
  need(stepgate_client_step_end(gate_, 0, nullptr) == STEPGATE_OK, "step_end");
  stepgate_decision decision{};
  decision.size = sizeof decision;
  need(stepgate_client_step_wait(gate_, 0, &decision) == STEPGATE_OK, "step_wait");
  need(decision.skip == 1, "the step is skipped");
}

bool Job::scraped(int steps) const {
  return scraped_with("stepgate_steps_total " + std::to_string(steps));
}

bool Job::scraped_with(const std::string& line) const {
  const std::string wanted = "\n" + line + "\n";
  const std::string url = url_of_page();
  for (int i = 0; i < 2000; ++i) {  // the publisher looks every 50 ms
    if (get(url).find(wanted) != std::string::npos) return true;
    usleep(5000);
  }
  std::printf("no %s in\n%s\n", wanted.c_str(), get(url).c_str());
  return false;
}

}  // namespace stepgate::test

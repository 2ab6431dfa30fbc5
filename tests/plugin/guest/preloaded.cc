#include "tests/plugin/guest/preloaded.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace stepgate::test {

namespace {

std::uint16_t free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) == 0;
  EXPECT_TRUE(bound);
  close(fd);
  return ntohs(at.sin_port);
}

}  // namespace

std::string preload() {
  const std::string runtime = GUEST_TEST_RUNTIME;
  return (runtime.empty() ? "" : runtime + " ") + STEPGATE_TEST_LIB "/libstepgate.so";
}

Variables guest_variables() {
  return {{"LD_PRELOAD", preload()},        {"STEPGATE_MODE", "enforce"},
          {"STEPGATE_METRICS_PORT", "0"},   {"STEPGATE_HOSTNCCL_TIMEOUT", "40"},
          {"UCX_ERROR_SIGNALS", ""},        {"UCX_HANDLE_ERRORS", "none"},
          {"UCX_DEBUG_SIGNO", "0"},         {"UCX_MEM_EVENTS", "n"},
          {"UCX_WARN_UNUSED_ENV_VARS", "n"}};
}

Variables observed_variables() {
  Variables v = guest_variables();
  v.erase("STEPGATE_MODE");
  v["STEPGATE_ATTRIBUTION"] = "on";
  return v;
}

Variables plane_variables() {
  return with(guest_variables(), {{"STEPGATE_PLANE", "on"},
                                  {"STEPGATE_RUN_ID", "guests"},
                                  {"STEPGATE_RENDEZVOUS", "127.0.0.1:" + std::to_string(free_port())}});
}

Variables with(Variables some, const Variables& more) {
  for (const auto& [name, value] : more) some[name] = value;
  return some;
}

GuestJob::GuestJob(const std::string& mode, int world, const Variables& variables) {
  for (int i = 0; i < world; ++i) {
    const std::vector<std::string> words = {GUEST_TEST_WORKER, mode, folder_.file(""), std::to_string(i),
                                            std::to_string(world)};
    Variables own = variables;
    if (own.contains("STEPGATE_PLANE")) {
      own["RANK"] = own["LOCAL_RANK"] = std::to_string(i);
      own["WORLD_SIZE"] = own["LOCAL_WORLD_SIZE"] = std::to_string(world);
    }
    ranks_.push_back(std::make_unique<Process>(words, own));
  }
}

std::vector<Outcome> GuestJob::finish() {
  std::vector<Outcome> outcomes;
  for (const auto& rank : ranks_) outcomes.push_back(rank->finish());
  return outcomes;
}

std::vector<Outcome> run_guest(const std::string& mode, int world, const Variables& variables) {
  return GuestJob(mode, world, variables).finish();
}

}  // namespace stepgate::test

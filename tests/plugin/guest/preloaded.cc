#include "tests/plugin/guest/preloaded.h"

namespace stepgate::test {

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

Variables with(Variables some, const Variables& more) {
  for (const auto& [name, value] : more) some[name] = value;
  return some;
}

GuestJob::GuestJob(const std::string& mode, int world, const Variables& variables) {
  for (int i = 0; i < world; ++i) {
    const std::vector<std::string> words = {GUEST_TEST_WORKER, mode, folder_.file(""), std::to_string(i),
                                            std::to_string(world)};
    ranks_.push_back(std::make_unique<Process>(words, variables));
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

#include "tests/integration/charlm/device/device_runs.h"

#include <string>

#include "tests/test_seed.h"

namespace stepgate::test {

std::map<std::string, std::string> over_the_standin() {
#if defined(__SANITIZE_ADDRESS__)
  constexpr char kGuard[] = "0";  // heap memory, whose ends AddressSanitizer watches
#else
  constexpr char kGuard[] = "1";
#endif
  return {{"LD_LIBRARY_PATH", STEPGATE_TEST_LIB "/standin_cuda"},
          {"STEPGATE_STANDIN_DELAY_US", "100"},
          {"STEPGATE_STANDIN_GUARD", kGuard},
          {"STEPGATE_STANDIN_SEED", std::to_string(test_seed())}};
}

HostAndDevice run_both(const CharlmSetup& setup, const std::vector<std::string>& more) {
  HostAndDevice runs;
  runs.host = run_charlm(setup);
  CharlmSetup on_device = setup;
  on_device.options = setup.options + std::vector<std::string>{"--device", "cuda"} + more;
  on_device.variables = over_the_standin();
  runs.device = run_charlm(on_device);
  return runs;
}

void expect_same(const HostAndDevice& runs) {
  ASSERT_EQ(runs.host.outcome.status, 0) << runs.host.outcome.err;
  ASSERT_EQ(runs.device.outcome.status, 0) << runs.device.outcome.err;
  const auto& host = runs.host.run.ranks;
  const auto& device = runs.device.run.ranks;
  ASSERT_EQ(host.size(), device.size());
  for (std::size_t r = 0; r < host.size(); ++r) {
    EXPECT_EQ(device[r].gated, host[r].gated) << r;
    ASSERT_EQ(device[r].steps.size(), host[r].steps.size()) << r;
    for (std::size_t i = 0; i < host[r].steps.size(); ++i) {
      ASSERT_EQ(device[r].steps[i], host[r].steps[i]) << "rank " << r << " step " << i + 1;
    }
    EXPECT_EQ(device[r].losses, host[r].losses) << r;
    EXPECT_EQ(device[r].offenders, host[r].offenders) << r;
    EXPECT_EQ(device[r].weights_checksum, host[r].weights_checksum) << r;
  }
}

}  // namespace stepgate::test

// The device variant without the plugin: each rank judges for itself, the optimizer's kernels obey, and all
// of it is what the host variant does.
#include <gtest/gtest.h>

#include <ostream>

#include "tests/integration/charlm/device/device_runs.h"

namespace stepgate::test {
namespace {

using Words = std::vector<std::string>;

struct NaiveCase {
  const char* name;
  int ranks;
  Words options;
  Words more;
};

void PrintTo(const NaiveCase& c, std::ostream* out) {
  *out << c.name;
}

class CharlmNaiveOnDevice : public testing::TestWithParam<NaiveCase> {};

TEST_P(CharlmNaiveOnDevice, DoesWhatTheHostVariantDoes) {
  const HostAndDevice runs =
      run_both({.ranks = GetParam().ranks,
                .plugin = false,
                .options = small_model() + GetParam().options +
                           Words{"--steps", "40", "--initial-scale", "16777216", "--interval", "8",
                                 "--inject", "0:20:hidden2.weight:nan"}},
               GetParam().more);
  expect_same(runs);
  ASSERT_EQ(runs.device.outcome.status, 0);
  const auto& steps = runs.device.run.ranks[0].steps;
  EXPECT_TRUE(steps[0].skip);  // of the model's own overflow
  EXPECT_TRUE(steps[19].skip);
  EXPECT_FALSE(steps[18].skip && steps[20].skip);
}

INSTANTIATE_TEST_SUITE_P(
    All, CharlmNaiveOnDevice,
    testing::Values(NaiveCase{"ddp", 1, {}, {}}, NaiveCase{"ddp_clipped", 1, {"--max-norm", "0.5"}, {}},
                    NaiveCase{"ddp_fp16_alone", 1, {"--grad-type", "fp16", "--no-group"}, {}},
                    NaiveCase{
                        "ddp_bf16_optimizer_graph", 1, {"--grad-type", "bf16"}, {"--graph", "optimizer"}},
                    NaiveCase{"ddp_of_two", 2, {}, {}}, NaiveCase{"ddp_of_four_sum", 4, {"--op", "sum"}, {}},
                    NaiveCase{"zero1_alone", 1, {"--strategy", "zero1", "--op", "sum"}, {}}),
    [](const auto& suite) { return std::string(suite.param.name); });

CharlmRun run_once(const Words& options, const std::map<std::string, std::string>& variables) {
  return run_charlm({.ranks = 1,
                     .plugin = false,
                     .options = small_model() + Words{"--steps", "3"} + options,
                     .variables = variables});
}

TEST(CharlmDeviceOptions, MachineWithoutADriverIsToldSo) {
  const CharlmRun run = run_once({"--device", "cuda"}, {});
  if (run.outcome.status == 0) GTEST_SKIP() << "this machine has a CUDA driver";
  EXPECT_NE(run.outcome.err.find("--device cuda: "), std::string::npos) << run.outcome.err;
  EXPECT_NE(run.outcome.err.find("--device host needs none"), std::string::npos) << run.outcome.err;
}

TEST(CharlmDeviceOptions, BadOnesAreRefused) {
  const std::pair<Words, const char*> cases[] = {
      {{"--device", "gpu"}, "--device is 'gpu'; allowed: host, cuda"},
      {{"--device", "cuda", "--graph", "all"}, "--graph is 'all'; allowed: none, optimizer, step"},
      {{"--graph", "optimizer"}, "--graph needs --device cuda"},
      {{"--device", "cuda", "--graph", "step"}, "--graph is step; allowed without a gate that decides"}};
  for (const auto& [options, says] : cases) {
    const CharlmRun run = run_once(options, over_the_standin());
    EXPECT_NE(run.outcome.status, 0) << says;
    EXPECT_NE(run.outcome.err.find(says), std::string::npos) << run.outcome.err;
  }
}

}  // namespace
}  // namespace stepgate::test

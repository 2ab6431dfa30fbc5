// The gate decides on the stream, the optimizer's kernels obey it there, and what comes of it is the host
// variant's run: decisions, scales, norms, losses, blame and weights, bit for bit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>

#include "tests/integration/charlm/device/device_runs.h"

namespace stepgate::test {
namespace {

using Words = std::vector<std::string>;
using charlm_report::Rank;

// The model's own overflows, a NaN of the last rank, an inf of the first, growths of the scale.
Words eventful(int ranks) {
  return small_model() + Words{"--steps",         "60",
                               "--initial-scale", "16777216",
                               "--interval",      "8",
                               "--inject",        std::to_string(ranks - 1) + ":30:hidden1.weight:nan",
                               "--inject",        "0:45:output.bias:inf"};
}

struct JobCase {
  const char* name;
  int ranks;
  Words options;
  Words more = {};
  bool threads = false;
  std::map<std::string, std::string> variables = {};
};

void PrintTo(const JobCase& c, std::ostream* out) {
  *out << c.name;
}

class CharlmDeviceJob : public testing::TestWithParam<JobCase> {};

TEST_P(CharlmDeviceJob, DecidesAndTrainsAsTheHostVariant) {
  const JobCase& c = GetParam();
  const HostAndDevice runs = run_both({.ranks = c.ranks,
                                       .threads = c.threads,
                                       .options = eventful(c.ranks) + c.options,
                                       .variables = c.variables},
                                      c.more);
  expect_same(runs);
  ASSERT_EQ(runs.device.outcome.status, 0);
  for (const Rank& rank : runs.device.run.ranks) {
    EXPECT_TRUE(rank.gated);
    ASSERT_EQ(rank.steps.size(), 60u);
    EXPECT_EQ(rank.weights_checksum, runs.device.run.ranks[0].weights_checksum) << rank.rank;
    for (const std::size_t step : {1, 30, 45}) EXPECT_TRUE(rank.steps[step - 1].skip) << step;
    EXPECT_EQ(rank.steps[29].reason, "nan");
    EXPECT_EQ(rank.steps[44].reason, "inf");
  }
}

std::vector<JobCase> job_cases() {
  const Words ddp = {"--strategy", "ddp"};
  const Words zero1 = {"--strategy", "zero1"};
  const Words optimizer = {"--graph", "optimizer"};
  const Words step = {"--graph", "step"};
  return {{"ddp1", 1, ddp},
          {"ddp2", 2, ddp},
          {"ddp4", 4, ddp},
          {"zero1_2", 2, zero1},
          {"zero1_4", 4, zero1},
          {"ddp_fp16_sum", 2, ddp + Words{"--grad-type", "fp16", "--op", "sum"}},
          {"ddp_clipped", 2, ddp + Words{"--max-norm", "0.5"}},
          {"zero1_bf16_alone", 3, zero1 + Words{"--grad-type", "bf16", "--no-group"}},
          {"zero1_clipped_sum", 3, zero1 + Words{"--max-norm", "0.5", "--op", "sum"}},
          {"ddp_optimizer_graph", 2, ddp, optimizer},
          {"zero1_optimizer_graph", 4, zero1, optimizer},
          {"ddp_step_graph", 2, ddp, step},
          {"zero1_step_graph", 4, zero1, step},
          {"zero1_threads", 2, zero1, {}, true},
          {"ddp_in_hook", 2, ddp, {}, false, {{"STEPGATE_UNSCALE", "in_hook"}}},
          {"zero1_in_hook_step_graph", 2, zero1, step, false, {{"STEPGATE_UNSCALE", "in_hook"}}}};
}

INSTANTIATE_TEST_SUITE_P(All, CharlmDeviceJob, testing::ValuesIn(job_cases()),
                         [](const auto& suite) { return std::string(suite.param.name); });

CharlmRun run_never_waiting(const std::string& device, int steps) {
  return run_charlm({.ranks = 2,
                     .options = small_model() + Words{"--strategy", "zero1", "--initial-scale", "1024",
                                                      "--device", device, "--steps", std::to_string(steps),
                                                      "--inject", "1:10:hidden1.weight:nan"},
                     .variables = over_the_standin(),
                     .program = STEPGATE_CHARLM_NEVER_WAITS});
}

int waits_of(const CharlmRun& run) {
  const std::string words = "driver waits: ";
  const auto at = run.outcome.err.find(words);
  EXPECT_NE(at, std::string::npos) << run.outcome.err;
  return at == std::string::npos ? -1 : std::atoi(run.outcome.err.c_str() + at + words.size());
}

// The NaN of rank 1 is skipped on both ranks although no host has asked: the program ends if one does.
TEST(CharlmDeviceJob, KernelsSkipWithoutTheHostAsking) {
  const CharlmRun run = run_never_waiting("cuda", 20);
  ASSERT_EQ(run.outcome.status, 0) << run.outcome.err;
  for (const Rank& rank : run.run.ranks) {
    ASSERT_EQ(rank.steps.size(), 20u);
    for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(rank.steps[i].skip, i == 9) << i;
    EXPECT_EQ(rank.weights_checksum, run.run.ranks[0].weights_checksum);
  }
  // The test of the test.
  EXPECT_NE(run_never_waiting("host", 20).outcome.status, 0);
}

// For the weights, since the model is host code.
TEST(CharlmDeviceJob, StepWaitsForTheDeviceOnce) {
  const CharlmRun shorter = run_never_waiting("cuda", 20);
  const CharlmRun longer = run_never_waiting("cuda", 50);
  ASSERT_EQ(shorter.outcome.status, 0) << shorter.outcome.err;
  ASSERT_EQ(longer.outcome.status, 0) << longer.outcome.err;
  EXPECT_EQ(waits_of(longer) - waits_of(shorter), 30);
}

// A driver call of rank 1 fails in the middle of the training. The call may be the job's own, NCCL's or the
// plugin's: the job ends with words for it, and nobody waits for ever for a rank that has gone.
TEST(CharlmDeviceJob, RankThatFailsEndsTheJob) {
  const TemporaryFolder folder;
  const std::string script = folder.file("rank1_fails");
  std::ofstream(script) << "#!/bin/sh\n"
                        << "if [ \"$RANK\" = 1 ]; then export STEPGATE_STANDIN_FAIL=$FAIL; fi\n"
                        << "exec " << charlm_path() << " \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  for (const char* call : {"cuMemcpyHtoDAsync_v2:150:700", "cuMemcpyDtoHAsync_v2:150:700"}) {
    std::map<std::string, std::string> variables = over_the_standin();
    variables["FAIL"] = call;
    const CharlmRun run = run_charlm(
        {.ranks = 2,
         .options = eventful(2) + Words{"--strategy", "zero1", "--device", "cuda", "--steps", "10000"},
         .variables = variables,
         .program = script});
    EXPECT_GT(run.outcome.status, 0) << call;
    EXPECT_LT(run.outcome.status, 128) << call << ": " << run.outcome.err;
    const bool told = run.outcome.err.find("CUDA_ERROR_ILLEGAL_ADDRESS (700)") != std::string::npos ||
                      run.outcome.err.find("the ranks' agreement has ended") != std::string::npos;
    EXPECT_TRUE(told) << run.outcome.err;
  }
}

// A checkpoint belongs to neither side.
TEST(CharlmDeviceJob, CheckpointsGoFromOneSideToTheOther) {
  const TemporaryFolder folder;
  const Words cuda = {"--device", "cuda"};
  const auto part = [&](const Words& options, bool device) {
    const CharlmRun run = run_charlm({.ranks = 2,
                                      .options = eventful(2) + options + (device ? cuda : Words{}),
                                      .variables = over_the_standin()});
    EXPECT_EQ(run.outcome.status, 0) << run.outcome.err;
    return run.outcome.status == 0 ? run.run.ranks[1].weights_checksum : "failed";
  };
  const std::string whole = part({}, false);
  for (const bool first_on_device : {false, true}) {
    const std::string file = folder.file(first_on_device ? "device" : "host");
    part({"--steps", "46", "--checkpoint", file}, first_on_device);
    EXPECT_EQ(part({"--resume", file}, !first_on_device), whole) << first_on_device;
  }
}

}  // namespace
}  // namespace stepgate::test

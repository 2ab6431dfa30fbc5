// A run that is stopped and resumed goes the way it would have gone.
#include <gtest/gtest.h>

#include "tests/integration/charlm/charlm_runs.h"

namespace stepgate::test {
namespace {

using charlm_report::Rank;
using Words = std::vector<std::string>;

struct ResumeCase {
  const char* strategy;
  bool plugin;
};

class Resume : public testing::TestWithParam<ResumeCase> {};

// The stop falls between growths and after skips, so scale, tracker, moments and data all matter.
TEST_P(Resume, ContinuesTheSameTrajectoryBitForBit) {
  const TemporaryFolder folder;
  const Words common = small_model() + Words{"--strategy",          GetParam().strategy,
                                             "--initial-scale",     "16777216",
                                             "--interval",          "7",
                                             "--random-injections", "5:0.1"};
  const auto with = [&](const Words& more) {
    return run_charlm({.ranks = 3, .plugin = GetParam().plugin, .options = common + more});
  };
  const CharlmRun whole = with({"--steps", "60"});
  const CharlmRun first = with({"--steps", "31", "--checkpoint", folder.file("c")});
  const CharlmRun second = with({"--steps", "60", "--resume", folder.file("c")});
  for (const CharlmRun* part : {&whole, &first, &second})
    ASSERT_EQ(part->outcome.status, 0) << part->outcome.err;
  for (int r = 0; r < 3; ++r) {
    const Rank& expected = whole.run.ranks[static_cast<std::size_t>(r)];
    const Rank& resumed = second.run.ranks[static_cast<std::size_t>(r)];
    EXPECT_EQ(resumed.weights_checksum, expected.weights_checksum);
    ASSERT_EQ(resumed.steps.size(), 29u);
    ASSERT_EQ(resumed.losses.size(), 29u);
    for (std::size_t i = 0; i < 29; ++i) {
      EXPECT_EQ(resumed.steps[i], expected.steps[31 + i]) << "rank " << r << " step " << 32 + i;
      EXPECT_EQ(resumed.losses[i], expected.losses[31 + i]) << "rank " << r << " step " << 32 + i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Resume,
                         testing::Values(ResumeCase{"ddp", true}, ResumeCase{"zero1", true},
                                         ResumeCase{"ddp", false}, ResumeCase{"zero1", false}),
                         [](const auto& suite) {
                           return std::string(suite.param.strategy) +
                                  (suite.param.plugin ? "" : "_without_plugin");
                         });

TEST(ResumeRefuses, CheckpointsOfAnotherStrategyOrJob) {
  const TemporaryFolder folder;
  const Words model = small_model() + Words{"--strategy", "zero1"};
  const CharlmRun first =
      run_charlm({.ranks = 2, .options = model + Words{"--steps", "3", "--checkpoint", folder.file("c")}});
  ASSERT_EQ(first.outcome.status, 0) << first.outcome.err;
  const Words resume = {"--steps", "6", "--resume", folder.file("c")};
  const CharlmRun other =
      run_charlm({.ranks = 2, .options = small_model() + Words{"--strategy", "ddp"} + resume});
  EXPECT_EQ(other.outcome.status, 1);
  EXPECT_NE(other.outcome.err.find("another model, strategy"), std::string::npos) << other.outcome.err;
  const CharlmRun naive = run_charlm({.ranks = 2, .plugin = false, .options = model + resume});
  EXPECT_EQ(naive.outcome.status, 1);
  EXPECT_NE(naive.outcome.err.find("no plugin answers"), std::string::npos) << naive.outcome.err;
}

struct BadOption {
  Words options;
  std::string says;
};

class CharlmRefuses : public testing::TestWithParam<BadOption> {};

TEST_P(CharlmRefuses, WithStatus2AndTheReason) {
  const Outcome outcome =
      run(Words{command_path(), "run", "-n", "1", "--no-plugin", "--nccl", "host", "--", charlm_path()} +
          GetParam().options);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find(GetParam().says), std::string::npos) << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(
    BadArguments, CharlmRefuses,
    testing::Values(
        BadOption{{"--strategy", "fsdp"}, "--strategy is 'fsdp'; allowed: ddp, zero1"},
        BadOption{{"--steps", "0"}, "--steps is '0'"}, BadOption{{"--layers", "1"}, "--layers is '1'"},
        BadOption{{"--inject", "0:1:bias:nan"}, "is 'bias'; allowed: embedding.weight, hidden1.weight"},
        BadOption{{"--inject", "0:1:output.bias:zero"}, "allowed: inf, nan, underflow"},
        BadOption{{"--inject", "5:1:output.bias:nan"}, "is 5; allowed: 0 to 0"},
        BadOption{{"--random-injections", "1:2"}, "--random-injections is '2'"},
        BadOption{{"--colour", "red"}, "unknown option '--colour'"}, BadOption{{"--text"}, "needs a value"}));

}  // namespace
}  // namespace stepgate::test

// A run that is stopped and resumed goes the way it would have gone.
#include <gtest/gtest.h>

#include <filesystem>

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
  EXPECT_EQ(other.outcome.status, 2);
  EXPECT_NE(other.outcome.err.find("--strategy is ddp; allowed: zero1"), std::string::npos)
      << other.outcome.err;
  const CharlmRun naive = run_charlm({.ranks = 2, .plugin = false, .options = model + resume});
  EXPECT_EQ(naive.outcome.status, 1);
  EXPECT_NE(naive.outcome.err.find("no plugin answers"), std::string::npos) << naive.outcome.err;
}

// Files that are each whole and each of the right rank, but of two runs.
class ResumeRefusesMixture : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"a", "b"}) {
      ASSERT_EQ(start({"--steps", "2", "--checkpoint", folder_.file(name)}).status, 0);
    }
  }
  Outcome start(const Words& more) {
    return run_charlm({.ranks = 2, .options = small_model() + more}).outcome;
  }
  void take_from_b(int from, int to) {
    std::filesystem::copy_file(folder_.file("b.rank" + std::to_string(from)),
                               folder_.file("a.rank" + std::to_string(to)),
                               std::filesystem::copy_options::overwrite_existing);
  }
  void expect_refused(const std::string& says) {
    const Outcome outcome = start({"--steps", "4", "--resume", folder_.file("a")});
    EXPECT_GT(outcome.status, 0);
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  }
  TemporaryFolder folder_;
};

TEST_F(ResumeRefusesMixture, OfTwoRunsAtTheSameStep) {
  take_from_b(1, 1);
  expect_refused("are a mixture: the run that wrote it is");
}

TEST_F(ResumeRefusesMixture, OfSwappedRanksAndDamagedFiles) {
  take_from_b(0, 1);
  expect_refused("a.rank1 is 0; allowed: 1");
  take_from_b(1, 1);
  std::filesystem::resize_file(folder_.file("a.rank1"), 1000);
  expect_refused("a.rank1: its checksum is 0x");
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
        BadOption{{"--steps", "9", "--inject", "0:10:output.bias:nan"},
                  "the step in --inject is '10'; allowed: 1 to 9"},
        BadOption{{"--initial-scale", "0"}, "--initial-scale is '0'; allowed: a number from 1e-30 to 1e+38"},
        BadOption{{"--learning-rate", "-1"}, "--learning-rate is '-1'; allowed: a number from 0 to 10"},
        BadOption{{"--rule", "pytorch"}, "--rule is 'pytorch'; allowed: stepgate, torch, apex"},
        BadOption{{"--bootstrap-timeout", "0"}, "--bootstrap-timeout is '0'"},
        BadOption{{"--colour", "red"}, "unknown option '--colour'"}, BadOption{{"--text"}, "needs a value"}));

Outcome two_ranks(const std::string& script) {
  return run({command_path(), "run", "-n", "2", "--no-plugin", "--nccl", "host", "--", "sh", "-c", script});
}

TEST(CharlmBootstrap, NamesTheRanksThatAreWaitedFor) {
  const std::string start = "exec " + charlm_path() + " --bootstrap-timeout 0.3";
  const Outcome without_1 = two_ranks("[ $RANK = 1 ] && exit 0; " + start);
  EXPECT_EQ(without_1.status, 1);
  EXPECT_NE(without_1.err.find("waited 0.3 s (--bootstrap-timeout)"), std::string::npos) << without_1.err;
  EXPECT_NE(without_1.err.find("these ranks did not come: 1\n"), std::string::npos) << without_1.err;
  const Outcome without_0 = two_ranks("[ $RANK = 0 ] && exit 0; " + start);
  EXPECT_EQ(without_0.status, 1);
  EXPECT_NE(without_0.err.find("rank 0 did not answer"), std::string::npos) << without_0.err;
}

TEST(CharlmOutput, TextThatIsAFolderIsNamed) {
  const Outcome outcome = run({charlm_path(), "--text", "/tmp"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err, "charlm: cannot read the text /tmp: Is a directory\n");
}

TEST(CharlmOutput, ThatCannotBeWrittenIsAFailure) {
  const std::string job = charlm_path() + " --steps 1 --context 4 --hidden 8 --batch 2 --progress";
  for (const std::string& command : {charlm_path() + " --help >/dev/full", charlm_path() + " --help >&-",
                                     job + " >/dev/full", job + " >&-"}) {
    const Outcome outcome = run({"sh", "-c", command});
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_NE(outcome.err.find("cannot write to standard output"), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace stepgate::test

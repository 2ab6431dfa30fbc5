// The main promise: one decision per step on all ranks, whatever happens to whom.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "integration/examples/charlm_report/checks.h"
#include "tests/integration/charlm/charlm_runs.h"

namespace stepgate::test {
namespace {

using charlm_report::Fault;
using charlm_report::Rank;
using charlm_report::Run;
using charlm_report::Step;
using Words = std::vector<std::string>;

void expect_agreement(const Run& run, std::size_t steps) {
  for (const Rank& rank : run.ranks) {
    EXPECT_TRUE(rank.gated) << rank.rank;
    ASSERT_EQ(rank.steps.size(), steps) << rank.rank;
    EXPECT_EQ(rank.weights_checksum, run.ranks[0].weights_checksum) << rank.rank;
    for (std::size_t i = 0; i < steps; ++i) {
      ASSERT_EQ(rank.steps[i], run.ranks[0].steps[i]) << "rank " << rank.rank << " step " << i + 1;
      EXPECT_EQ(rank.steps[i].step, i + 1);
    }
  }
}

std::set<std::uint64_t> skipped(const Run& run) {
  std::set<std::uint64_t> steps;
  for (const Step& step : run.ranks[0].steps) {
    if (step.skip) steps.insert(step.step);
  }
  return steps;
}

std::set<std::uint64_t> injected(const Run& run) {
  std::set<std::uint64_t> steps;
  for (const Fault& fault : run.injections) steps.insert(fault.step);
  return steps;
}

void expect_blamed(const Run& run) {
  const std::vector<Fault> offenders = all_offenders(run);
  for (const Fault& fault : run.injections) {
    EXPECT_NE(std::find(offenders.begin(), offenders.end(), fault), offenders.end())
        << fault.kind << " on rank " << fault.rank << " in " << fault.parameter << " at step " << fault.step;
  }
}

struct AgreementCase {
  int ranks;
  const char* strategy;
  bool threads;
};

std::string case_name(const testing::TestParamInfo<AgreementCase>& info) {
  return std::string(info.param.strategy) + std::to_string(info.param.ranks) +
         (info.param.threads ? "threads" : "processes");
}

class Agreement : public testing::TestWithParam<AgreementCase> {};

// Scale 1 never overflows, so what is skipped is exactly what was injected.
TEST_P(Agreement, RandomInjectionsAreSkippedTogetherAndBlamed) {
  const CharlmRun result = run_charlm(
      {.ranks = GetParam().ranks,
       .threads = GetParam().threads,
       .options = small_model() + Words{"--steps", "300", "--strategy", GetParam().strategy,
                                        "--initial-scale", "1", "--random-injections", "11:0.06"}});
  ASSERT_EQ(result.outcome.status, 0) << result.outcome.err;
  expect_agreement(result.run, 300);
  EXPECT_GT(injected(result.run).size(), 5u);
  EXPECT_EQ(skipped(result.run), injected(result.run));
  expect_blamed(result.run);
}

std::vector<AgreementCase> all_cases() {
  std::vector<AgreementCase> cases;
  for (const char* strategy : {"ddp", "zero1"}) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      cases.push_back({ranks, strategy, false});
      if (ranks > 1) cases.push_back({ranks, strategy, true});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, Agreement, testing::ValuesIn(all_cases()), case_name);

struct Variant {
  const char* name;
  Words options;
};

class AgreementVariants : public testing::TestWithParam<Variant> {};

// The model's own overflows, growths of the scale, clipping: with each way to communicate.
TEST_P(AgreementVariants, HoldsWhenTheModelItselfOverflows) {
  const CharlmRun result =
      run_charlm({.ranks = 3,
                  .options = small_model() + GetParam().options +
                             Words{"--steps", "120", "--initial-scale", "16777216", "--interval", "10",
                                   "--max-norm", "0.5", "--inject", "2:60:hidden2.weight:nan", "--inject",
                                   "1:90:output.bias:inf", "--inject", "0:100:embedding.weight:underflow"}});
  ASSERT_EQ(result.outcome.status, 0) << result.outcome.err;
  expect_agreement(result.run, 120);
  const std::set<std::uint64_t> skips = skipped(result.run);
  EXPECT_TRUE(skips.contains(1));
  EXPECT_TRUE(skips.contains(60));
  EXPECT_TRUE(skips.contains(90));
  EXPECT_LT(skips.size(), 60u);
}

INSTANTIATE_TEST_SUITE_P(
    All, AgreementVariants,
    testing::Values(Variant{"ddp_fp16", {"--strategy", "ddp", "--grad-type", "fp16"}},
                    Variant{"ddp_bf16", {"--strategy", "ddp", "--grad-type", "bf16"}},
                    Variant{"ddp_sum_alone", {"--strategy", "ddp", "--op", "sum", "--no-group"}},
                    Variant{"zero1_fp16", {"--strategy", "zero1", "--grad-type", "fp16"}},
                    Variant{"zero1_bf16_sum", {"--strategy", "zero1", "--grad-type", "bf16", "--op", "sum"}},
                    Variant{"zero1_alone", {"--strategy", "zero1", "--no-group"}},
                    Variant{"zero1_megatron", {"--strategy", "zero1", "--rule", "megatron"}}),
    [](const auto& suite) { return std::string(suite.param.name); });

TEST(AgreementNorm, IsTheSameWhoeverHoldsTheGradients) {
  const Words options = small_model() + Words{"--steps", "5", "--initial-scale", "1024"};
  const CharlmRun zero1 = run_charlm({.options = options + Words{"--strategy", "zero1"}});
  const CharlmRun ddp = run_charlm({.options = options + Words{"--strategy", "ddp"}});
  const CharlmRun ddp_sum = run_charlm({.options = options + Words{"--strategy", "ddp", "--op", "sum"}});
  const CharlmRun naive = run_charlm({.plugin = false, .options = options + Words{"--strategy", "ddp"}});
  for (const CharlmRun* run : {&zero1, &ddp, &ddp_sum, &naive}) {
    ASSERT_EQ(run->outcome.status, 0) << run->outcome.err;
  }
  for (std::size_t i = 0; i < 5; ++i) {
    const double expected = naive.run.ranks[0].steps[i].norm.value();
    EXPECT_NEAR(zero1.run.ranks[0].steps[i].norm.value(), expected, 1e-4 * expected);
    EXPECT_NEAR(ddp.run.ranks[0].steps[i].norm.value(), expected, 1e-4 * expected);
    EXPECT_NEAR(ddp_sum.run.ranks[0].steps[i].norm.value(), expected, 1e-4 * expected);
  }
}

// Scales are powers of two, so it does not matter to a bit who multiplies.
TEST(UnscaleInHook, TrainsAsDeferredDoes) {
  const Words options =
      small_model() + Words{"--steps",    "40", "--initial-scale", "16777216",
                            "--interval", "8",  "--inject",        "1:20:hidden1.weight:nan"};
  for (const char* strategy : {"ddp", "zero1"}) {
    const Words words = options + Words{"--strategy", strategy};
    const CharlmRun deferred = run_charlm({.ranks = 2, .options = words});
    const CharlmRun in_hook =
        run_charlm({.ranks = 2, .options = words, .variables = {{"STEPGATE_UNSCALE", "in_hook"}}});
    for (const CharlmRun* run : {&deferred, &in_hook}) {
      ASSERT_EQ(run->outcome.status, 0) << run->outcome.err;
    }
    for (std::size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(in_hook.run.ranks[r].weights_checksum, deferred.run.ranks[r].weights_checksum) << strategy;
      EXPECT_EQ(in_hook.run.ranks[r].steps, deferred.run.ranks[r].steps) << strategy;
      EXPECT_TRUE(in_hook.run.ranks[r].steps[19].skip);
    }
  }
}

// The report's own checks on the job that the quickstart runs, smaller.
TEST(Quickstart, SmallRunShowsAllThatItMust) {
  const CharlmRun result =
      run_charlm({.options = {"--strategy", "zero1", "--steps", "150", "--hidden", "64", "--batch", "32",
                              "--initial-scale", "16777216", "--inject", "2:90:hidden1.weight:nan"}});
  ASSERT_EQ(result.outcome.status, 0) << result.outcome.err;
  for (const charlm_report::Check& check : check_run(result.run, {.steps = 150, .model_overflow = true})) {
    EXPECT_TRUE(check.holds) << check.what << ": " << check.detail;
  }
}

// The test of the test: a core that decides without summing over the ranks must fail it.
TEST(WithoutTheExchange, RanksDisagree) {
  const CharlmRun result =
      run_charlm({.options = small_model() + Words{"--strategy", "zero1", "--steps", "40", "--initial-scale",
                                                   "1024", "--inject", "2:20:hidden1.weight:nan"},
                  .launcher_options = {"--plugin", STEPGATE_TEST_LIB "/without_exchange/libstepgate.so"}});
  ASSERT_EQ(result.outcome.status, 0) << result.outcome.err;
  std::set<bool> decisions;
  for (const Rank& rank : result.run.ranks) {
    EXPECT_TRUE(rank.gated);
    ASSERT_EQ(rank.steps.size(), 40u);
    decisions.insert(rank.steps[19].skip);
  }
  EXPECT_EQ(decisions.size(), 2u);
  EXPECT_FALSE(all_hold(check_run(result.run, {})));
}

// Why StepGate exists. The ranks that do not see the NaN apply the step, the others skip it; from
// then on their scales differ.
TEST(WithoutThePlugin, Zero1DoesNotSurviveANanWithEqualDecisions) {
  const CharlmRun result =
      run_charlm({.plugin = false,
                  .options = small_model() + Words{"--strategy", "zero1", "--steps", "40", "--initial-scale",
                                                   "1024", "--inject", "2:20:hidden1.weight:nan"}});
  ASSERT_EQ(result.outcome.status, 0) << result.outcome.err;
  std::set<bool> decisions;
  std::set<double> later_scales;
  for (const Rank& rank : result.run.ranks) {
    EXPECT_FALSE(rank.gated);
    ASSERT_EQ(rank.steps.size(), 40u);
    decisions.insert(rank.steps[19].skip);
    later_scales.insert(rank.steps[20].scale);
  }
  EXPECT_EQ(decisions.size(), 2u);
  EXPECT_EQ(later_scales.size(), 2u);
  const auto checks = check_run(result.run, {});
  EXPECT_FALSE(all_hold(checks));
}

}  // namespace
}  // namespace stepgate::test

// One step after another on 1 to 8 ranks: the same decision everywhere, and what a caller may and may
// not call when.
#include "tests/plugin/fake_world.h"

namespace stepgate::test {
namespace {

// Weights of one rank and everything that was decided.
struct History {
  std::vector<Step> steps;
  double weight = 1;
};

void expect_same_history(const std::vector<History>& all) {
  for (std::size_t r = 1; r < all.size(); ++r) {
    ASSERT_EQ(all[r].steps.size(), all[0].steps.size());
    EXPECT_EQ(bits(all[r].weight), bits(all[0].weight));
    for (std::size_t i = 0; i < all[0].steps.size(); ++i) {
      const stepgate_decision &a = all[0].steps[i].decision, &b = all[r].steps[i].decision;
      EXPECT_EQ(all[r].steps[i].status, all[0].steps[i].status);
      EXPECT_TRUE(a.step == b.step && a.skip == b.skip && a.reason == b.reason && a.offender == b.offender);
      EXPECT_TRUE(bits(a.norm) == bits(b.norm) && a.clip == b.clip && a.multiplier == b.multiplier);
      EXPECT_TRUE(a.scale == b.scale && a.next_scale == b.next_scale);
    }
  }
}

class Ranks : public testing::TestWithParam<int> {};

// Sharded gradients with random infs and NaNs: 300 steps, one trajectory.
TEST_P(Ranks, DecideAlikeOverManySteps) {
  WorldOptions o;
  o.ranks = GetParam();
  o.params = default_params(ScalerRule::kStepgate);
  o.params.interval = 7;
  o.policy.max_norm = 0.5;
  World world(o);
  const std::uint64_t seed = seeded("gradients")();
  std::vector<History> all(static_cast<std::size_t>(o.ranks));
  world.run([&](Rank& r) {
    std::mt19937_64 random(seed + static_cast<std::uint64_t>(r.rank()));
    r.shard.resize(100);
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    History& h = all[static_cast<std::size_t>(r.rank())];
    for (int i = 0; i < 300; ++i) {
      for (float& x : r.shard) x = std::normal_distribution<float>(0, 1000)(random);
      if (chance(random, 0.1 / o.ranks)) r.shard[below(random, 100)] = chance(random, 0.5) ? NAN : -INFINITY;
      const Step s = r.step();
      ASSERT_EQ(s.status, STEPGATE_OK) << s.error;
      if (s.applies()) h.weight -= 1e-3 * s.decision.norm * s.decision.clip;
      h.steps.push_back(s);
    }
    EXPECT_EQ(r.nccl().exchanges(r.rank()), 301) << "one exchange a step and one for the activation";
  });
  expect_same_history(all);
  int skips = 0;
  for (const Step& s : all[0].steps) skips += s.decision.skip;
  EXPECT_GT(skips, 0);
  EXPECT_LT(skips, 200);
}

INSTANTIATE_TEST_SUITE_P(World, Ranks, testing::Values(1, 2, 3, 4, 5, 8));

void skip_then_apply(Rank& r) {
  r.declare("shard", {&r.shard});
  ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
  const Step good = r.step();
  EXPECT_TRUE(good.applies()) << good.error;
  EXPECT_EQ(good.found_inf, 0.0f);
  EXPECT_EQ(good.decision.step, 1u);
  EXPECT_EQ(good.decision.offender, STEPGATE_RANK_UNKNOWN);
  const float before = r.shard[0];
  if (r.rank() == 1) r.shard[0] = NAN;
  const Step bad = r.step();
  EXPECT_EQ(bad.status, STEPGATE_OK) << bad.error;
  EXPECT_EQ(bad.decision.skip, 1);
  EXPECT_EQ(bad.decision.reason, STEPGATE_REASON_NAN);
  EXPECT_EQ(bad.decision.overflow, 1);
  EXPECT_EQ(bad.found_inf, 1.0f);
  EXPECT_TRUE(std::isnan(bad.decision.norm));
  EXPECT_EQ(bad.decision.next_scale, bad.decision.scale / 2);
  r.shard[0] = before;
  EXPECT_TRUE(r.step().applies());
}

TEST(GateSteps, NanOnOneRankSkipsOnAll) {
  World world({.ranks = 4});
  world.run(skip_then_apply);
}

TEST(GateSteps, VetoByOneRankSkipsOnAllAndLeavesTheScaler) {
  World world({.ranks = 3});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    r.begin();
    if (r.rank() == 2) {
      EXPECT_EQ(r.gate().veto(nullptr), STEPGATE_OK);
    }
    const Step s = r.end();
    EXPECT_EQ(s.status, STEPGATE_OK);
    EXPECT_EQ(s.decision.reason, STEPGATE_REASON_VETO);
    EXPECT_EQ(s.decision.overflow, 0);
    EXPECT_EQ(s.decision.next_scale, s.decision.scale);
    EXPECT_TRUE(r.step().applies()) << "a veto speaks of one step";
  });
}

// ---- the order of calls

struct Expected {
  stepgate_status got;
  const char* words;
};

void expect_invalid(Rank& r, stepgate_status got, const char* words) {
  EXPECT_EQ(got, STEPGATE_INVALID) << words;
  EXPECT_NE(std::string(gate::last_error()).find(words), std::string::npos) << gate::last_error();
  stepgate_scaler_info info{};
  EXPECT_EQ(r.gate().state(&info), STEPGATE_OK);
  EXPECT_EQ(info.scale, 65536) << words;
}

TEST(GateSequence, WithoutActivationTheStepFunctionsAreInactive) {
  World world({.ranks = 1});
  world.run([](Rank& r) {
    double fields[STEPGATE_SUMMARY_FIELDS];
    gate::Gate& g = r.gate();
    EXPECT_EQ(g.step_begin(nullptr), STEPGATE_INACTIVE);
    EXPECT_NE(std::string(gate::last_error()).find("stepgate_enforce_begin"), std::string::npos);
    EXPECT_EQ(g.veto(nullptr), STEPGATE_INACTIVE);
    EXPECT_EQ(g.summarize(0, nullptr, fields), STEPGATE_INACTIVE);
    EXPECT_EQ(g.step_end(0, nullptr), STEPGATE_INACTIVE);
    EXPECT_EQ(g.enforce_end(nullptr), STEPGATE_INACTIVE);
    EXPECT_EQ(r.nccl().exchanges(0), 0);
  });
}

TEST(GateSequence, WrongOrderIsRefusedInWordsAndChangesNothing) {
  World world({.ranks = 1});
  world.run([](Rank& r) {
    gate::Gate& g = r.gate();
    double fields[STEPGATE_SUMMARY_FIELDS] = {};
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    expect_invalid(r, g.step_wait(0, nullptr), "no step has been begun");
    expect_invalid(r, g.step_end(0, nullptr), "no step is open");
    expect_invalid(r, g.summarize(0, nullptr, fields), "no step is open");
    expect_invalid(r, g.decide(0, nullptr), "no summary of the open step");
    expect_invalid(r, g.scaler_update(nullptr), "no step is open");
    expect_invalid(r, g.veto(nullptr), "no step is open");
    expect_invalid(r, g.apply(0, nullptr), "deferred; allowed: apply");
    r.begin();
    expect_invalid(r, g.step_begin(nullptr), "step 1 is still open");
    expect_invalid(r, g.decide(0, nullptr), "no summary of the open step");
    expect_invalid(r, g.set_scale(2), "a step is open");
    expect_invalid(r, g.enforce_begin(nullptr), "step 1 is still open");
    expect_invalid(r, g.enforce_summarize(nullptr, fields), "step 1 is still open");
    std::size_t bytes = 0;
    expect_invalid(r, g.state_save(nullptr, &bytes), "step 1 is open");
    for (const auto call : {0, 1, 2, 3, 4}) {
      const std::uint32_t set = kMaxSets;
      const Outputs* out = nullptr;
      const stepgate_status status = call == 0   ? g.summarize(set, nullptr, fields)
                                     : call == 1 ? g.decide(set, nullptr)
                                     : call == 2 ? g.step_end(set, nullptr)
                                     : call == 3 ? g.outputs(set, &out)
                                                 : g.step_wait(set, nullptr);
      expect_invalid(r, status, "set 8; allowed: 0 to 7");
    }
    ASSERT_EQ(g.summarize(0, nullptr, fields), STEPGATE_OK);
    expect_invalid(r, g.summarize(0, nullptr, fields), "summarized in this step already");
    expect_invalid(r, g.step_end(0, nullptr), "summarized in this step already");
    ASSERT_EQ(g.decide(0, nullptr), STEPGATE_OK);
    expect_invalid(r, g.decide(0, nullptr), "no summary of the open step");
    ASSERT_EQ(g.scaler_update(nullptr), STEPGATE_OK);
    EXPECT_TRUE(r.wait().applies()) << "all those calls changed the step";
    EXPECT_TRUE(r.step().applies());
  });
}

TEST(GateSequence, StateLoadOnlyBeforeActivation) {
  World world({.ranks = 1});
  world.run([](Rank& r) {
    std::vector<unsigned char> blob(gate::state_blob_bytes());
    std::size_t bytes = blob.size();
    ASSERT_EQ(r.gate().state_save(blob.data(), &bytes), STEPGATE_OK);
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    expect_invalid(r, r.gate().state_load(blob.data(), bytes), "enforce is active");
    bytes = 8;
    expect_invalid(r, r.gate().state_save(blob.data(), &bytes), "buffer of 8 bytes; needed");
    EXPECT_EQ(bytes, blob.size());
  });
}

TEST(GateSequence, ApplyRunsOnceAndOnlyAfterADecision) {
  WorldOptions o{.ranks = 1};
  o.policy.unscale = UnscaleMode::kApply;
  World world(o);
  world.run([](Rank& r) {
    gate::Gate& g = r.gate();
    r.declare("shard", {&r.shard});
    r.shard = {65536, -131072};
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    expect_invalid(r, g.apply(0, nullptr), "needs a decided step");
    r.begin();
    expect_invalid(r, g.apply(0, nullptr), "needs a decided step");
    const Step s = r.end();
    EXPECT_TRUE(s.applies());
    ASSERT_EQ(g.apply(0, nullptr), STEPGATE_OK);
    EXPECT_EQ(r.shard, (std::vector<float>{1, -2}));
    expect_invalid(r, g.apply(0, nullptr), "runs once");
    EXPECT_EQ(r.shard, (std::vector<float>{1, -2}));
    EXPECT_EQ(r.wait().decision.multiplier, 1) << "there is nothing left to unscale";
    EXPECT_EQ(r.wait().decision.grad_scale, 1);
  });
}

TEST(GateSequence, ApplyLeavesASkippedStepAlone) {
  WorldOptions o{.ranks = 2};
  o.policy.unscale = UnscaleMode::kApply;
  World world(o);
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    r.shard = {65536, r.rank() == 0 ? INFINITY : 1.0f};
    const std::vector<float> before = r.shard;
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    EXPECT_EQ(r.step().decision.skip, 1);
    EXPECT_EQ(r.gate().apply(0, nullptr), STEPGATE_OK);
    EXPECT_EQ(r.shard, before);
  });
}

TEST(GateSequence, SetScaleBetweenSteps) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    gate::Gate& g = r.gate();
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    for (const double bad : {0.0, -1.0, kNan, kInf, 1e39, 1e-45}) {
      expect_invalid(r, g.set_scale(bad), "finite in fp32");
    }
    ASSERT_EQ(g.set_scale(128), STEPGATE_OK);
    const Step s = r.step();
    EXPECT_TRUE(s.applies());
    EXPECT_EQ(s.decision.scale, 128);
    EXPECT_EQ(s.decision.diverged, 0);
    EXPECT_EQ(g.counters().external_scale_changes, 1u);
  });
}

// ---- sets and the caller's own exchange

// Sums what every rank wrote, at a meeting of the test's own.
void sum_over_ranks(Rank& r, double* fields) {
  const auto combine = [](const std::vector<const void*>& in, void* out) {
    for (int i = 0; i < STEPGATE_SUMMARY_FIELDS; ++i) {
      double sum = 0;
      for (const void* one : in) sum += static_cast<const double*>(one)[i];
      static_cast<double*>(out)[i] = sum;
    }
  };
  const auto bytes = sizeof(double) * STEPGATE_SUMMARY_FIELDS;
  EXPECT_EQ(r.nccl().meet(FakeNccl::kGradients, r.rank(), fields, bytes, fields, combine), ncclSuccess);
}

void activate_by_hand(Rank& r) {
  double fields[STEPGATE_ACTIVATION_FIELDS];
  ASSERT_EQ(r.gate().enforce_summarize(nullptr, fields), STEPGATE_OK);
  sum_over_ranks(r, fields);
  ASSERT_EQ(r.gate().enforce_decide(nullptr, fields), STEPGATE_OK) << gate::last_error();
}

TEST(GateSets, OverflowInOneLeavesTheOtherAndTheScalerMovesOnce) {
  World world({.ranks = 3});
  world.run([](Rank& r) {
    std::vector<float> a(4, 1.0f), b(4, 2.0f);
    r.declare("a", {&a}, [](gate::RangeSpec& s) { s.set = 0; });
    r.declare("b", {&b}, [](gate::RangeSpec& s) { s.set = 1; });
    activate_by_hand(r);
    double fields[2][STEPGATE_SUMMARY_FIELDS];
    if (r.rank() == 1) a[3] = INFINITY;
    r.begin();
    for (const std::uint32_t set : {0u, 1u}) {
      ASSERT_EQ(r.gate().summarize(set, nullptr, fields[set]), STEPGATE_OK) << gate::last_error();
      sum_over_ranks(r, fields[set]);
      ASSERT_EQ(r.gate().decide(set, nullptr), STEPGATE_OK);
    }
    ASSERT_EQ(r.gate().scaler_update(nullptr), STEPGATE_OK);
    const Step sa = r.wait(0), sb = r.wait(1);
    EXPECT_EQ(sa.decision.reason, STEPGATE_REASON_INF);
    EXPECT_EQ(sa.found_inf, 1.0f);
    EXPECT_TRUE(sb.applies());
    EXPECT_EQ(sb.found_inf, 0.0f);
    EXPECT_EQ(sb.decision.norm, std::sqrt(3 * 4 * 4.0) / 65536);
    EXPECT_EQ(sa.decision.next_scale, 32768) << "one update for the step";
    EXPECT_EQ(sb.decision.next_scale, 32768);
    EXPECT_EQ(r.nccl().exchanges(r.rank()), 0) << "the exchange was the caller's";
  });
}

TEST(GateSets, CallersExchangeOverManySteps) {
  World world({.ranks = 4});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    activate_by_hand(r);
    double fields[STEPGATE_SUMMARY_FIELDS];
    for (int i = 1; i <= 20; ++i) {
      r.shard[0] = i % 5 == r.rank() ? NAN : 1.0f;
      r.begin();
      ASSERT_EQ(r.gate().summarize(0, nullptr, fields), STEPGATE_OK);
      EXPECT_EQ(r.wait().status, STEPGATE_UNDECIDED);
      EXPECT_EQ(r.wait().found_inf, 1.0f) << "until a decision comes";
      sum_over_ranks(r, fields);
      ASSERT_EQ(r.gate().decide(0, nullptr), STEPGATE_OK);
      ASSERT_EQ(r.gate().scaler_update(nullptr), STEPGATE_OK);
      const Step s = r.wait();
      EXPECT_EQ(s.status, STEPGATE_OK);
      EXPECT_EQ(s.decision.skip, i % 5 < 4);
    }
  });
}

TEST(GateSets, FailureBeforeTheCallersExchangeReleasesAll) {
  World world({.ranks = 3});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    activate_by_hand(r);
    double fields[STEPGATE_SUMMARY_FIELDS];
    r.begin();
    if (r.rank() == 1) r.device().fail(FaultyDevice::kScan, 0);
    ASSERT_EQ(r.gate().summarize(0, nullptr, fields), STEPGATE_OK);
    sum_over_ranks(r, fields);
    ASSERT_EQ(r.gate().decide(0, nullptr), STEPGATE_OK);
    EXPECT_EQ(r.gate().scaler_update(nullptr), STEPGATE_OK);
    EXPECT_EQ(r.wait().status, STEPGATE_RELEASED);
  });
}

// The rank cannot even write its failure down: it must say so, for the caller sums what is there.
TEST(GateSets, SummaryThatCannotBeWrittenIsAFailure) {
  World world({.ranks = 1});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    activate_by_hand(r);
    double fields[STEPGATE_SUMMARY_FIELDS];
    r.begin();
    r.device().fail(FaultyDevice::kCopyIn, 0, FaultyDevice::kForEver);
    r.device().fail(FaultyDevice::kSummarize, 0);
    EXPECT_EQ(r.gate().summarize(0, nullptr, fields), STEPGATE_FAILED);
    EXPECT_EQ(r.wait().found_inf, 1.0f);
  });
}

TEST(GateSets, RankWithoutThePluginIsMissingFromTheActivation) {
  World world({.ranks = 3});
  world.run([](Rank& r) {
    double fields[STEPGATE_ACTIVATION_FIELDS] = {};  // what the header-only client hands out
    if (r.rank() != 2) {
      ASSERT_EQ(r.gate().enforce_summarize(nullptr, fields), STEPGATE_OK);
    }
    sum_over_ranks(r, fields);
    EXPECT_EQ(r.gate().enforce_decide(nullptr, fields), STEPGATE_REFUSED);
    EXPECT_NE(std::string(gate::last_error()).find("2 ranks answered where 3 must"), std::string::npos);
    EXPECT_FALSE(r.gate().enforcing());
  });
}

TEST(GateSets, SetWithoutDecisionIsUndecidedAndReleasesAllNextStep) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    activate_by_hand(r);
    double fields[STEPGATE_SUMMARY_FIELDS];
    r.begin();
    ASSERT_EQ(r.gate().summarize(0, nullptr, fields), STEPGATE_OK);
    sum_over_ranks(r, fields);
    const bool decides = r.rank() == 0;
    if (decides) {
      ASSERT_EQ(r.gate().decide(0, nullptr), STEPGATE_OK);
    }
    EXPECT_EQ(r.gate().scaler_update(nullptr), decides ? STEPGATE_OK : STEPGATE_UNDECIDED);
    EXPECT_EQ(r.wait().status, decides ? STEPGATE_OK : STEPGATE_UNDECIDED);
    EXPECT_EQ(r.wait().found_inf, decides ? 0.0f : 1.0f);
    EXPECT_EQ(r.wait().decision.skip, decides ? 0 : 1);
    r.begin();
    ASSERT_EQ(r.gate().summarize(0, nullptr, fields), STEPGATE_OK);
    sum_over_ranks(r, fields);
    ASSERT_EQ(r.gate().decide(0, nullptr), STEPGATE_OK);
    EXPECT_EQ(r.gate().scaler_update(nullptr), STEPGATE_OK);
    EXPECT_EQ(r.wait().status, STEPGATE_RELEASED);
    EXPECT_EQ(r.wait().found_inf, 1.0f);
  });
}

}  // namespace
}  // namespace stepgate::test

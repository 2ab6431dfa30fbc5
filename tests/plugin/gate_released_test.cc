// What steps come to once the agreement has ended: skipped until the job acts, or let through unguarded.
#include "tests/plugin/fake_world.h"

namespace stepgate::test {
namespace {

WorldOptions released_world(ReleasedPolicy released, UnscaleMode unscale = UnscaleMode::kDeferred) {
  WorldOptions o{.ranks = 2};
  o.policy.released = released;
  o.policy.unscale = unscale;
  o.policy.max_norm = 1e-9;  // clips every guarded step
  return o;
}

// One good step, then one that a failure on rank 1 ends the agreement in.
void until_released(Rank& r) {
  r.declare("shard", {&r.shard});
  ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
  r.shard = {65536, 65536};
  EXPECT_LT(r.step().decision.clip, 1);
  if (r.rank() == 1) r.device().fail(FaultyDevice::kSummarize, 0);
  const Step s = r.step();
  r.device().heal();
  EXPECT_EQ(s.status, STEPGATE_RELEASED);
  EXPECT_EQ(s.decision.skip, 1) << "that step is skipped by all, whatever the policy";
  EXPECT_EQ(s.found_inf, 1.0f);
}

TEST(GateReleased, SkipIsForEver) {
  World world(released_world(ReleasedPolicy::kSkip));
  world.run([](Rank& r) {
    until_released(r);
    for (int i = 0; i < 3; ++i) {
      const Step s = r.step();
      EXPECT_EQ(s.status, STEPGATE_RELEASED);
      EXPECT_EQ(s.found_inf, 1.0f);
      EXPECT_EQ(s.decision.skip, 1);
    }
  });
}

TEST(GateReleased, UnguardedStepsGoOnUnscaledAndUnclipped) {
  World world(released_world(ReleasedPolicy::kUnguarded));
  world.run([](Rank& r) {
    until_released(r);
    for (const float x : {65536.0f, NAN}) {
      r.shard[0] = x;
      const Step s = r.step();
      EXPECT_EQ(s.status, STEPGATE_RELEASED) << "the job is told at every step";
      EXPECT_EQ(s.found_inf, 0.0f);
      EXPECT_EQ(s.decision.skip, 0);
      EXPECT_EQ(s.decision.released, 1);
      EXPECT_EQ(s.decision.multiplier, 1.0 / 65536);
      EXPECT_EQ(s.decision.grad_scale, 65536);
      EXPECT_EQ(s.decision.clip, 1);
      EXPECT_TRUE(std::isnan(s.decision.norm)) << "nobody knows it";
      EXPECT_EQ(s.decision.next_scale, 65536) << "the scale stands still";
    }
    ASSERT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_OK) << gate::last_error();
    const Step guarded = r.step();
    EXPECT_EQ(guarded.status, STEPGATE_OK);
    EXPECT_EQ(guarded.decision.reason, STEPGATE_REASON_NAN);
  });
}

// The rank that is gone cannot hold up those that were told to go on.
TEST(GateReleased, UnguardedNeedsNoExchange) {
  World world(released_world(ReleasedPolicy::kUnguarded));
  for (int r = 0; r < 2; ++r) world.nccl().set_fate(r, 3, Fate::kSumLost);
  world.run([](Rank& r) {
    until_released(r);
    const Step s = r.step();
    EXPECT_EQ(s.end, STEPGATE_UNDECIDED) << "the exchange itself failed";
    EXPECT_EQ(s.status, STEPGATE_RELEASED);
    EXPECT_EQ(s.found_inf, 0.0f);
    EXPECT_EQ(s.decision.skip, 0);
    EXPECT_EQ(s.decision.multiplier, 1.0 / 65536);
  });
}

TEST(GateReleased, InHookLeavesTheMultiplicationToTheJob) {
  World world(released_world(ReleasedPolicy::kUnguarded, UnscaleMode::kInHook));
  world.run([](Rank& r) {
    until_released(r);
    r.begin();
    r.shard = {65536, 65536};
    r.all_reduce(r.shard);
    const Step s = r.end();
    EXPECT_EQ(r.shard, (std::vector<float>{2 * 65536, 2 * 65536})) << "nothing multiplies any more";
    EXPECT_EQ(s.found_inf, 0.0f);
    EXPECT_EQ(s.decision.multiplier, 1.0 / 65536) << "so the outputs say by what";
  });
}

TEST(GateReleased, ApplyStillUnscales) {
  World world(released_world(ReleasedPolicy::kUnguarded, UnscaleMode::kApply));
  world.run([](Rank& r) {
    until_released(r);
    r.shard = {65536, 131072};
    EXPECT_EQ(r.step().found_inf, 0.0f);
    ASSERT_EQ(r.gate().apply(0, nullptr), STEPGATE_OK) << gate::last_error();
    EXPECT_EQ(r.shard, (std::vector<float>{1, 2}));
    EXPECT_EQ(r.wait().decision.multiplier, 1);
  });
}

TEST(GateReleased, RanksThatWouldGoOnDifferentlyAreRefused) {
  World world({.ranks = 2});
  double sums[STEPGATE_ACTIVATION_FIELDS] = {};
  WorldOptions o = released_world(ReleasedPolicy::kUnguarded);
  o.policy.max_norm = 0;
  World other(o);
  for (Rank* r : {&world.rank(0), &other.rank(1)}) {
    double fields[STEPGATE_ACTIVATION_FIELDS];
    ASSERT_EQ(r->gate().enforce_summarize(nullptr, fields), STEPGATE_OK);
    for (int i = 0; i < STEPGATE_ACTIVATION_FIELDS; ++i) sums[i] += fields[i];
  }
  EXPECT_EQ(world.rank(0).gate().enforce_decide(nullptr, sums), STEPGATE_REFUSED);
  EXPECT_NE(std::string(gate::last_error()).find("configurations"), std::string::npos);
}

}  // namespace
}  // namespace stepgate::test

// The edges of each rule that recorded trajectories do not reach.
#include "tests/collectives/core/support.h"

namespace stepgate::test {
namespace {

ScalerParams params(ScalerRule rule, double initial, std::uint64_t interval) {
  ScalerParams p = default_params(rule);
  p.initial_scale = initial;
  p.interval = interval;
  return p;
}

ScalerState state(double scale, std::int64_t tracker, std::int64_t hysteresis = 1) {
  ScalerState s;
  s.scale = scale;
  s.growth_tracker = tracker;
  s.hysteresis_left = hysteresis;
  return s;
}

void steps(const ScalerParams& p, ScalerState& s, const char* pattern) {
  for (; *pattern != 0; ++pattern) update_scaler(p, *pattern == 'x', s);
}

struct Row {
  const char* what;
  ScalerRule rule;
  std::uint64_t interval;
  ScalerState start;
  const char* pattern;
  double scale;
  std::int64_t tracker;
};

TEST(ScalerRules, RestoredAndExtremeStates) {
  const double below_infinity = 0x1p127;
  const Row rows[] = {
      {"torch: a tracker above the interval never grows", ScalerRule::kTorch, 4, state(64, 9), ".....", 64,
       14},
      {"torch: an overflow heals such a tracker", ScalerRule::kTorch, 4, state(64, 9), "x....", 64, 0},
      {"torch: a tracker one below grows", ScalerRule::kTorch, 4, state(64, 3), ".", 128, 0},
      {"torch: growth to infinity refused, tracker restarts", ScalerRule::kTorch, 2, state(below_infinity, 1),
       ".", below_infinity, 0},
      {"torch: zero never recovers", ScalerRule::kTorch, 1, state(0, 0), "..", 0, 0},
      {"apex: growth to infinity refused", ScalerRule::kApex, 1, state(below_infinity, 0, 2), ".",
       below_infinity, 0},
      {"apex: a tracker above the interval never grows", ScalerRule::kApex, 4, state(64, 9, 2), "...", 64,
       12},
      {"megatron: growth to infinity refused", ScalerRule::kMegatron, 1, state(below_infinity, 0, 2), ".",
       below_infinity, 0},
      {"megatron: a tracker above the interval never grows", ScalerRule::kMegatron, 4, state(64, 9, 2), "..",
       64, 11},
      {"stepgate: a tracker above the interval grows", ScalerRule::kStepgate, 4, state(64, 9), ".", 128, 0},
      {"stepgate: exactly at the interval grows", ScalerRule::kStepgate, 4, state(64, 3), ".", 128, 0},
      {"stepgate: one below the interval does not", ScalerRule::kStepgate, 4, state(64, 2), ".", 64, 3},
      {"stepgate: held at the maximum", ScalerRule::kStepgate, 1, state(0x1p24, 0), "..", 0x1p24, 0},
      {"stepgate: held at the minimum", ScalerRule::kStepgate, 1, state(1, 0), "xxx", 1, 0},
      {"stepgate: leaves the minimum again", ScalerRule::kStepgate, 2, state(1, 0), "x..", 2, 0},
      {"static: nothing moves", ScalerRule::kStatic, 1, state(64, 5), "x.x.", 64, 5},
      {"none: nothing moves", ScalerRule::kNone, 1, state(1, 0), "x.x.", 1, 0},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    ScalerState s = row.start;
    steps(params(row.rule, 64, row.interval), s, row.pattern);
    EXPECT_EQ(bits(s.scale), bits(row.scale)) << s.scale;
    EXPECT_EQ(s.growth_tracker, row.tracker);
  }
}

TEST(ScalerRules, TorchHasNoFloor) {
  const ScalerParams p = params(ScalerRule::kTorch, 65536, 2000);
  ScalerState s = initial_state(p);
  int overflows = 0;
  while (s.scale > 0 && overflows < 1000) {
    update_scaler(p, true, s);
    ++overflows;
    if (overflows == 144) {
      EXPECT_EQ(s.scale, 0x1p-128);
    }
  }
  EXPECT_EQ(overflows, 166);
}

TEST(ScalerRules, PeersReachTheFloorAndStayThere) {
  struct Floor {
    ScalerRule rule;
    double initial;
    int first;  // the overflow after which the scale stands at 1
  };
  // Megatron: two hits of hysteresis cost one overflow, then 32 halvings. DeepSpeed: one, then 16.
  for (const Floor& row :
       {Floor{ScalerRule::kMegatron, 0x1p32, 33}, Floor{ScalerRule::kDeepspeed, 0x1p16, 17},
        Floor{ScalerRule::kStepgate, 0x1p16, 16}}) {
    const ScalerParams p = params(row.rule, row.initial, 1000);
    ScalerState s = initial_state(p);
    for (int i = 1; i <= row.first + 20; ++i) {
      update_scaler(p, true, s);
      EXPECT_EQ(at_minimum(p, s), i >= row.first) << scaler_rule_name(row.rule) << ", overflow " << i;
    }
    EXPECT_EQ(s.scale, 1.0);
  }
}

// What hysteresis forgives: apex consecutive overflows only, megatron any until the next growth.
TEST(ScalerRules, WhenHysteresisIsRefilled) {
  struct Refill {
    ScalerRule rule;
    const char* pattern;
    double scale;
  };
  const Refill rows[] = {
      {ScalerRule::kApex, "x.x.x.", 64},
      {ScalerRule::kApex, "xx", 32},
      {ScalerRule::kApex, "xxx", 16},
      {ScalerRule::kMegatron, "x.x", 32},
      {ScalerRule::kMegatron, "x.x.x", 16},
      {ScalerRule::kDeepspeed, "x.x", 32},
      {ScalerRule::kDeepspeed, "x.x.x", 16},
      {ScalerRule::kDeepspeedConsecutive, "x.x.x", 64},
      {ScalerRule::kDeepspeedConsecutive, "xx", 32},
  };
  for (const Refill& row : rows) {
    const ScalerParams p = params(row.rule, 64, 100);
    ScalerState s = initial_state(p);
    steps(p, s, row.pattern);
    EXPECT_EQ(s.scale, row.scale) << scaler_rule_name(row.rule) << " " << row.pattern;
  }
}

TEST(ScalerRules, DeepspeedWithHysteresisOneBacksOffAtOnce) {
  ScalerParams p = params(ScalerRule::kDeepspeed, 64, 2);
  p.hysteresis = 1;
  ScalerState s = initial_state(p);
  EXPECT_EQ(s.hysteresis_left, 1);
  steps(p, s, "xx");
  EXPECT_EQ(s.scale, 16);
  // A restored larger remainder does not delay it: the setting alone says so.
  s.hysteresis_left = 5;
  steps(p, s, "x");
  EXPECT_EQ(s.scale, 8);
  // Growth comes with the good step after the window, one later than torch's.
  steps(p, s, "..");
  EXPECT_EQ(s.scale, 8);
  steps(p, s, ".");
  EXPECT_EQ(s.scale, 16);
}

TEST(ScalerRules, DeepspeedCountsTheWindowFromBeforeTheFirstStep) {
  const ScalerParams p = params(ScalerRule::kDeepspeed, 64, 3);
  ScalerState s = initial_state(p);
  steps(p, s, "...");
  EXPECT_EQ(s.scale, 64);
  steps(p, s, ".");
  EXPECT_EQ(s.scale, 128);
}

TEST(ScalerRules, DeepspeedRefusesInfiniteGrowth) {
  const ScalerParams p = params(ScalerRule::kDeepspeed, 64, 1);
  ScalerState s = initial_state(p);
  s.scale = 0x1p1023;
  steps(p, s, "...");
  EXPECT_EQ(s.scale, 0x1p1023);
}

TEST(ScalerRules, EveryUpdateIsCounted) {
  for (std::uint32_t i = 0; i < kScalerRuleCount; ++i) {
    const ScalerParams p = default_params(static_cast<ScalerRule>(i));
    ScalerState s = initial_state(p);
    steps(p, s, "x.x");
    EXPECT_EQ(s.iteration, 3) << scaler_rule_name(p.rule);
  }
}

}  // namespace
}  // namespace stepgate::test

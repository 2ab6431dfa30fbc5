// A gate's block through single steps: what is counted, shown, remembered, and refused.
#include "tests/collectives/core/support.h"

namespace stepgate::test {
namespace {

Fields summarize(GateBlock& g, const std::vector<RangeSlot>& slots, std::uint32_t set = 0) {
  Fields f;
  summarize_set(g, set, slots.data(), static_cast<std::uint32_t>(slots.size()), f.data());
  return f;
}

void whole_step(GateBlock& g, const std::vector<RangeSlot>& slots) {
  begin_step(g);
  decide_set(g, 0, summarize(g, slots).data());
  update_scale(g);
}

GateBlock alone(ScalerRule rule = ScalerRule::kTorch) {
  return new_block(default_params(rule), 0, 1);
}

TEST(GateBlockTest, FreshBlocksSkip) {
  const GateBlock g = alone();
  for (const SetBlock& s : g.sets) EXPECT_EQ(s.outputs.found_inf, 1.0f);
}

TEST(GateBlockTest, StepAppliesAndGrows) {
  GateBlock g = alone();
  g.params.interval = 1;
  whole_step(g, {slot_of({3 * 65536.0, 4 * 65536.0})});
  const Outputs& o = g.sets[0].outputs;
  EXPECT_EQ(o.found_inf, 0.0f);
  EXPECT_EQ(o.norm, 5.0f);
  EXPECT_EQ(o.multiplier, 0x1p-16f) << "the scale of this step's backward";
  EXPECT_EQ(o.grad_scale, 65536.0f);
  EXPECT_EQ(o.scale, 131072.0f) << "the scale of the next";
  EXPECT_EQ(g.last_decided, 1u);
}

TEST(GateBlockTest, SummarizeShowsASkipUntilTheDecision) {
  GateBlock g = alone();
  whole_step(g, {slot_of({1})});
  ASSERT_EQ(g.sets[0].outputs.found_inf, 0.0f);
  begin_step(g);
  summarize(g, {slot_of({1})});
  const Outputs& o = g.sets[0].outputs;
  EXPECT_EQ(o.found_inf, 1.0f);
  EXPECT_EQ(o.multiplier, 1.0f);
  EXPECT_EQ(o.grad_scale, 1.0f);
  EXPECT_EQ(o.norm, 0.0f);
  EXPECT_EQ(g.sets[0].decision.skip, 1u) << "not the last step's decision";
}

TEST(GateBlockTest, CountedLiveFactorAndSet) {
  GateBlock g = alone();
  g.scaler.scale = 1;
  RangeSlot counted = slot_of({3});
  RangeSlot duplicate = slot_of({100, kInf});
  duplicate.counted = 0;
  RangeSlot absent = slot_of({kNan});
  absent.live = 0;
  RangeSlot averaged = slot_of({8});
  averaged.factor = 0.5;
  RangeSlot other_set = slot_of({kNan});
  other_set.set = 1;
  begin_step(g);
  const Fields f = summarize(g, {counted, duplicate, absent, averaged, other_set});
  EXPECT_EQ(norm_from_limbs(f.data()), 5.0) << "3 and 8/2; no duplicate, nothing absent";
  EXPECT_EQ(f[kSumInf], 1) << "flags count on every rank";
  EXPECT_EQ(f[kSumNan], 0);
  EXPECT_EQ(f[kSumElements], 4);
}

// A live slot whose statistics are another step's is no gradient of this one.
TEST(GateBlockTest, ASlotOfAnotherStepVetoes) {
  for (const std::uint64_t stamp : {std::uint64_t{1}, std::uint64_t{3}, kNeverScanned}) {
    GateBlock g = alone();
    begin_step(g);
    begin_step(g);
    RangeSlot fresh = slot_of({3});
    fresh.reduced_step = 2;
    RangeSlot unstamped = slot_of({4});
    RangeSlot old = slot_of({100, kNan});
    old.reduced_step = stamp;
    EXPECT_EQ(summarize(g, {fresh, unstamped})[kSumVeto], 0);
    const Fields f = summarize(g, {fresh, unstamped, old});
    EXPECT_EQ(f[kSumVeto], 1);
    EXPECT_EQ(f[kSumNan], 0) << "its figures are not counted";
    EXPECT_EQ(f[kSumElements], 2);
    decide_set(g, 0, f.data());
    EXPECT_EQ(g.sets[0].decision.reason, Reason::kVeto);
    old.live = 0;
    EXPECT_EQ(summarize(g, {fresh, old})[kSumVeto], 0) << "absent this step";
    old.live = 1;
    old.set = 1;
    EXPECT_EQ(summarize(g, {fresh, old})[kSumVeto], 0) << "another set's";
    EXPECT_EQ(g.veto, 0u) << "nothing stays";
  }
}

TEST(GateBlockTest, ALocalScanOfAnotherStepAttributesNothing) {
  GateBlock g = alone();
  g.attributing = 1;
  begin_step(g);
  RangeSlot r = slot_of({3});
  r.reduced_step = r.local_step = 1;
  EXPECT_EQ(summarize(g, {r})[kSumAttributing], 1);
  r.local_step = kNeverScanned;
  EXPECT_EQ(summarize(g, {r})[kSumAttributing], 0);
  EXPECT_EQ(summarize(g, {r})[kSumVeto], 0);
  r.live = 0;
  EXPECT_EQ(summarize(g, {r})[kSumAttributing], 1) << "not reduced this step";
  r.live = 1;
  r.local_step = kUnstamped;
  EXPECT_EQ(summarize(g, {r})[kSumAttributing], 1) << "whoever wrote it vouches for it";
}

TEST(GateBlockTest, ClearLocalLeavesTheRest) {
  RangeSlot slots[2] = {slot_of({3}), slot_of({4, kNan})};
  for (RangeSlot& r : slots) {
    r.local = r.reduced;
    r.first_bad_segment = 5;
    r.reduced_step = r.local_step = 9;
  }
  const RangeSlot before = slots[1];
  clear_local(slots, 2);
  for (const RangeSlot& r : slots) {
    EXPECT_EQ(r.local.elements, 0u);
    EXPECT_EQ(r.local.nan, 0u);
    EXPECT_EQ(r.local.sum_squares, 0.0);
    EXPECT_EQ(r.first_bad_segment, -1);
    EXPECT_EQ(r.reduced_step, 9u);
    EXPECT_EQ(r.local_step, 9u);
  }
  EXPECT_EQ(slots[1].reduced.nan, before.reduced.nan);
  EXPECT_EQ(slots[1].reduced.elements, 2u);
  EXPECT_EQ(slots[1].largest_storable, before.largest_storable);
}

TEST(GateBlockTest, UnscaledSumIsHeldBeyondFp64OnlyAsAFlag) {
  GateBlock g = alone();
  begin_step(g);
  RangeSlot r = slot_of({1});
  r.reduced.sum_squares = kInf;
  const Fields f = summarize(g, {r});
  EXPECT_EQ(f[kSumNormOverflow], 1);
  decide_set(g, 0, f.data());
  EXPECT_EQ(g.sets[0].decision.reason, Reason::kNorm);
}

TEST(GateBlockTest, ApplyCountsAProductThatTheTypeCannotHold) {
  for (const auto mode : {UnscaleMode::kDeferred, UnscaleMode::kApply}) {
    GateBlock g = alone();
    g.policy.unscale = mode;
    g.scaler.scale = 0.5;
    g.attributing = 1;
    RangeSlot r = slot_of({40000});
    r.largest_storable = 65504;
    begin_step(g);
    decide_set(g, 0, summarize(g, {r}).data());
    const Decision& d = g.sets[0].decision;
    EXPECT_EQ(d.reason, mode == UnscaleMode::kApply ? Reason::kInf : Reason::kNone);
    EXPECT_EQ(d.offender, kOffenderUnknown) << "not the reduction's doing";
    r.reduced.abs_max = 65504 * 0.5;
    begin_step(g);
    decide_set(g, 0, summarize(g, {r}).data());
    EXPECT_EQ(g.sets[0].decision.reason, Reason::kNone) << "exactly the largest value fits";
  }
}

TEST(GateBlockTest, AfterApplyTheHandedOutPairIsOne) {
  GateBlock g = alone();
  g.policy.unscale = UnscaleMode::kApply;
  begin_step(g);
  decide_set(g, 0, summarize(g, {slot_of({1})}).data());
  EXPECT_EQ(g.sets[0].decision.multiplier, 0x1p-16f) << "what apply multiplies by";
  mark_applied(g, 0);
  EXPECT_EQ(g.sets[0].outputs.multiplier, 1.0f);
  EXPECT_EQ(g.sets[0].outputs.grad_scale, 1.0f);
  EXPECT_EQ(g.sets[0].outputs.found_inf, 0.0f);
}

struct Sets {
  const char* what;
  std::vector<double> a, b;
  bool veto;
  double scale;
  std::int64_t tracker;
};

TEST(GateBlockTest, OneUpdateForAllSetsOfAStep) {
  const Sets rows[] = {
      {"both good", {1}, {1}, false, 65536, 6},
      {"one overflows", {1}, {kInf}, false, 32768, 0},
      {"the other overflows", {kNan}, {1}, false, 32768, 0},
      {"both overflow", {kInf}, {kNan}, false, 32768, 0},
      {"both vetoed", {1}, {1}, true, 65536, 5},
  };
  for (const Sets& row : rows) {
    SCOPED_TRACE(row.what);
    GateBlock g = alone();
    g.scaler.growth_tracker = 5;
    std::vector<RangeSlot> slots = {slot_of(row.a), slot_of(row.b)};
    slots[1].set = 1;
    begin_step(g);
    g.veto = row.veto;
    // Both are summarised before either is decided, as a framework with two optimizers may.
    const Fields a = summarize(g, slots, 0), b = summarize(g, slots, 1);
    decide_set(g, 0, a.data());
    decide_set(g, 1, b.data());
    update_scale(g);
    EXPECT_EQ(g.scaler.scale, row.scale);
    EXPECT_EQ(g.scaler.growth_tracker, row.tracker);
    EXPECT_EQ(g.sets[0].outputs.scale, static_cast<float>(row.scale));
    EXPECT_EQ(g.sets[1].outputs.scale, static_cast<float>(row.scale));
    update_scale(g);
    EXPECT_EQ(g.scaler.growth_tracker, row.tracker) << "a second update of one step changes nothing";
  }
}

TEST(GateBlockTest, OnlyALaterStepConfirms) {
  GateBlock g = alone();
  whole_step(g, {slot_of({1})});
  EXPECT_EQ(g.last_decided, 1u);
  EXPECT_EQ(g.last_confirmed, 0u);
  begin_step(g);
  decide_set(g, 0, summarize(g, {slot_of({1})}, 0).data());
  decide_set(g, 1, summarize(g, {slot_of({1})}, 1).data());
  EXPECT_EQ(g.last_decided, 2u);
  EXPECT_EQ(g.last_confirmed, 1u) << "the second set's exchange confirms nothing of its own step";
}

TEST(GateBlockTest, StaleSumsDecideNothing) {
  GateBlock g = alone();
  begin_step(g);
  const Fields old = summarize(g, {slot_of({1})});
  decide_set(g, 0, old.data());
  ASSERT_EQ(g.sets[0].outputs.found_inf, 0.0f);
  update_scale(g);
  begin_step(g);
  const Fields own = summarize(g, {slot_of({kInf})});
  decide_set(g, 0, old.data());
  EXPECT_EQ(g.sets[0].outputs.found_inf, 1.0f) << "last step's sums";
  EXPECT_EQ(g.sets[0].decided_step, 1u);
  EXPECT_EQ(g.last_decided, 1u);
  decide_set(g, 1, own.data());
  EXPECT_EQ(g.sets[1].outputs.found_inf, 1.0f) << "another set's sums";
  begin_step(g);
  EXPECT_EQ(g.undecided, 1u);
  decide_set(g, 0, summarize(g, {slot_of({1})}).data());
  EXPECT_EQ(g.released, 1u);
}

TEST(GateBlockTest, ReleasedIsForEverASkip) {
  GateBlock g = alone();
  whole_step(g, {slot_of({1})});
  release(g);
  EXPECT_EQ(g.sets[0].outputs.found_inf, 1.0f);
  const ScalerState before = g.scaler;
  for (int i = 0; i < 3; ++i) {
    whole_step(g, {slot_of({i == 1 ? kInf : 1})});
    EXPECT_EQ(g.sets[0].outputs.found_inf, 1.0f);
    EXPECT_EQ(g.sets[0].decision.released, 1u);
    EXPECT_EQ(g.scaler.scale, before.scale);
    EXPECT_EQ(g.scaler.iteration, before.iteration);
    EXPECT_EQ(g.last_decided, 1u);
  }
}

TEST(GateBlockTest, ReleasedAndUnguardedIsAppliedFromTheNextStepOn) {
  for (const UnscaleMode unscale : {UnscaleMode::kDeferred, UnscaleMode::kApply, UnscaleMode::kInHook}) {
    GateBlock g = alone();
    g.policy.unscale = unscale;
    g.policy.released = ReleasedPolicy::kUnguarded;
    g.policy.max_norm = 1e-9;
    whole_step(g, {slot_of({1})});
    release(g);
    EXPECT_EQ(g.sets[0].outputs.found_inf, 1.0f) << "the step that ends it is skipped by all";
    const ScalerState before = g.scaler;
    begin_step(g);
    EXPECT_EQ(g.unscale_by, 1.0) << "no scan multiplies any more ...";
    const auto fields = summarize(g, {slot_of({kInf})});
    for (const bool decided : {false, true}) {
      if (decided) decide_set(g, 0, fields.data());
      EXPECT_EQ(g.sets[0].outputs.found_inf, 0.0f) << "no exchange is needed for it: " << decided;
      EXPECT_EQ(g.sets[0].outputs.multiplier, static_cast<float>(1 / before.scale)) << "... so the job does";
      EXPECT_EQ(g.sets[0].outputs.grad_scale, static_cast<float>(before.scale));
      EXPECT_EQ(g.sets[0].decision.clip, 1.0);
      EXPECT_EQ(g.sets[0].decision.released, 1u);
    }
    update_scale(g);
    EXPECT_EQ(g.scaler.scale, before.scale);
    EXPECT_EQ(g.last_decided, 1u);
  }
}

// The sets of the step in which the agreement ends are skipped alike, whichever came first.
TEST(GateBlockTest, UnguardedBeginsWithAStepNotWithinOne) {
  GateBlock g = alone();
  g.policy.released = ReleasedPolicy::kUnguarded;
  begin_step(g);
  const auto first = summarize(g, {slot_of({1})});
  release(g);
  decide_set(g, 0, first.data());
  EXPECT_EQ(g.sets[0].outputs.found_inf, 1.0f);
  EXPECT_EQ(g.sets[0].decision.released, 1u);
}

// Of one group all ranks see that one is missing; of several in turn some may have the sum of all.
TEST(GateBlockTest, SumsOfTooFewRanksReleaseOrWhereTheyGoInTurnsDecideNothing) {
  for (const bool in_turns : {false, true}) {
    SCOPED_TRACE(in_turns);
    GateBlock g = alone();
    g.policy.world = 4;
    g.in_turns = in_turns;
    begin_step(g);
    auto fields = summarize(g, {slot_of({1})});
    decide_set(g, 0, fields.data());
    EXPECT_EQ(g.released, in_turns ? 0u : 1u);
    EXPECT_EQ(g.sets[0].decided_step, in_turns ? 0u : 1u);
    EXPECT_EQ(g.sets[0].outputs.found_inf, 1.0f);
    begin_step(g);
    EXPECT_EQ(g.undecided, in_turns ? 1u : 0u) << "what has no decision says so";
    fields = summarize(g, {slot_of({1})});
    fields[kSumDegrade] = 1;
    decide_set(g, 0, fields.data());
    EXPECT_EQ(g.released, 1u) << "a rank that fails before the exchange keeps all from applying";
  }
}

TEST(GateBlockTest, ReleaseAfterZeroMeansAtTheFirstDivergenceNotBefore) {
  GateBlock g = alone();
  g.policy.release_after = 0;
  whole_step(g, {slot_of({1})});
  EXPECT_EQ(g.released, 0u);
}

TEST(GateBlockTest, ExternalScaleIsLatchedAndItsDigestSent) {
  GateBlock g = alone(), other = alone();
  g.external_scale = 8;
  begin_step(g);
  begin_step(other);
  EXPECT_EQ(g.latched_scale, 8.0);
  EXPECT_NE(g.digest_a, other.digest_a) << "ranks with different external scales diverge in this very step";
  decide_set(g, 0, summarize(g, {slot_of({16})}).data());
  EXPECT_EQ(g.sets[0].outputs.norm, 2.0f);
}

TEST(GateBlockTest, NormOutputSaturates) {
  GateBlock g = alone();
  g.scaler.scale = 1;
  RangeSlot r = slot_of({1});
  r.reduced.sum_squares = 0x1p300;
  begin_step(g);
  decide_set(g, 0, summarize(g, {r}).data());
  EXPECT_EQ(g.sets[0].outputs.found_inf, 0.0f);
  EXPECT_EQ(g.sets[0].outputs.norm, 0x1.fffffep+127f);
  EXPECT_EQ(g.sets[0].decision.norm, 0x1p150);
}

TEST(Digest, TellsBytesApartAndFitsSixteenBits) {
  const char a[] = "abcdefgh";
  EXPECT_EQ(digest16("", 0), (2166136261u >> 16 ^ (2166136261u & 0xffffu)));
  EXPECT_NE(digest16(a, 8), digest16(a, 7));
  std::mt19937_64 random = seeded("digests");
  int equal = 0;
  for (int i = 0; i < 4000; ++i) {
    std::uint64_t x[5];
    for (auto& word : x) word = random();
    const std::uint32_t before = digest16(x, sizeof x);
    ASSERT_LE(before, 0xffffu);
    x[below(random, 5)] ^= std::uint64_t{1} << below(random, 64);
    equal += digest16(x, sizeof x) == before;
  }
  EXPECT_LE(equal, 4) << "about 0.06 expected";
}

}  // namespace
}  // namespace stepgate::test

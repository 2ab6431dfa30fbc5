// Local attribution: which rank, and which parameter, put an inf or NaN into a reduction.
#include "tests/plugin/fake_world.h"

namespace stepgate::test {
namespace {

Reduction reduction(Rank& r, OpKind kind, const std::vector<float>& send, float* recv, std::size_t count) {
  return {kind, ncclFloat32, ncclSum, 0, send.data(), recv, count, r.nccl().ranks(), r.comm(), nullptr};
}

TEST(GateAttribution, NamesTheRankThatPutItIn) {
  World world({.ranks = 4});
  world.run([](Rank& r) {
    std::vector<float> bucket = {1, 2, 3};
    r.declare("bucket", {&bucket});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    if (r.rank() == 2) bucket[1] = INFINITY;
    r.begin();
    r.all_reduce(bucket);
    const Step s = r.end();
    EXPECT_EQ(s.decision.reason, STEPGATE_REASON_INF);
    EXPECT_EQ(s.decision.offender, 2);
    // The next step starts clean: nothing of the last one may be blamed again.
    bucket = {1, 2, 3};
    r.begin();
    r.all_reduce(bucket);
    EXPECT_TRUE(r.end().applies());
  });
}

// One step with a NaN on rank 1 that the hooks see, declared or only in a send buffer.
void poisoned_step(Rank& r, bool declared) {
  const Reduction scatter = reduction(r, OpKind::kReduceScatter, r.input, r.shard.data(), 2);
  r.begin();
  if (r.rank() == 1) (declared ? r.shard : r.input)[0] = NAN;
  if (declared) {
    r.all_reduce(r.shard);
  } else {
    r.gate().before(scatter);
    r.gate().after(scatter, stepgate::Outcome::kLaunched);
  }
  EXPECT_EQ(r.end().decision.offender, 1);
  r.shard = {1, 1};
  r.input = {1, 1, 1, 1};
}

TEST(GateAttribution, AStepWithoutReductionsDoesNotInheritTheLastOnesOffenders) {
  for (const bool declared : {true, false}) {
    World world({.ranks = 2});
    world.run([&](Rank& r) {
      r.declare("shard", {&r.shard});
      ASSERT_EQ(r.activate(), STEPGATE_OK);
      poisoned_step(r, declared);
      EXPECT_TRUE(r.step().applies()) << (declared ? "declared" : "anonymous");
    });
  }
}

TEST(GateAttribution, WhatCannotBeClearedIsNotJudged) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    poisoned_step(r, true);
    if (r.rank() == 1) r.device().fail(FaultyDevice::kBeginStep, 0);
    EXPECT_EQ(r.step().status, STEPGATE_RELEASED);
  });
}

TEST(GateAttribution, SeveralAndTheReductionItself) {
  World world({.ranks = 3});
  world.run([](Rank& r) {
    std::vector<float> bucket = {1};
    r.declare("bucket", {&bucket});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    r.begin();
    bucket[0] = r.rank() != 0 ? NAN : 1.0f;
    r.all_reduce(bucket);
    EXPECT_EQ(r.end().decision.offender, STEPGATE_RANK_SEVERAL);
    r.begin();
    bucket[0] = 2e38f;
    r.all_reduce(bucket);
    const Step s = r.end();
    EXPECT_EQ(s.decision.reason, STEPGATE_REASON_INF);
    EXPECT_EQ(s.decision.offender, STEPGATE_RANK_REDUCTION);
  });
}

TEST(GateAttribution, NobodyIsBlamedWhereOneRankDidNotLook) {
  World world({.ranks = 3});
  world.run([](Rank& r) {
    std::vector<float> bucket = {2e38f};
    r.declare("bucket", {&bucket});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    if (r.rank() == 1) r.device().fail(FaultyDevice::kScan, 0);  // its local scan
    r.begin();
    r.all_reduce(bucket);
    const Step s = r.end();
    EXPECT_EQ(s.status, STEPGATE_OK) << s.error;
    EXPECT_EQ(s.decision.offender, STEPGATE_RANK_UNKNOWN);
  });
}

TEST(GateAttribution, OffCostsNoSecondPassAndBlamesNobody) {
  WorldOptions o{.ranks = 2};
  o.attribution = gate::Attribution::kOff;
  World world(o);
  world.run([](Rank& r) {
    std::vector<float> bucket = {r.rank() == 0 ? NAN : 1.0f};
    r.declare("bucket", {&bucket});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    r.begin();
    r.all_reduce(bucket);
    const Step s = r.end();
    EXPECT_EQ(s.decision.reason, STEPGATE_REASON_NAN);
    EXPECT_EQ(s.decision.offender, STEPGATE_RANK_UNKNOWN);
    EXPECT_EQ(r.gate().counters().scanned_bytes[static_cast<std::size_t>(ScanPhase::kLocal)], 0u);
  });
}

TEST(GateAttribution, ReduceScatterLooksAtTheWholeSendBuffer) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    std::vector<float> send = {1, 2, 3, 4};
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    if (r.rank() == 0) send[3] = NAN;  // lands in the other rank's shard
    r.begin();
    const Reduction op = reduction(r, OpKind::kReduceScatter, send, r.shard.data(), 2);
    r.gate().before(op);
    r.shard[1] = r.rank() == 1 ? NAN : 4.0f;
    r.gate().after(op, stepgate::Outcome::kLaunched);
    const Step s = r.end();
    EXPECT_EQ(s.decision.reason, STEPGATE_REASON_NAN);
    EXPECT_EQ(s.decision.offender, 0) << "the rank that put it in, not the one that received it";
  });
}

TEST(GateAttribution, ReduceElsewhereThanOnTheRootIsNotTakenForClean) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    std::vector<float> send = {1, 2};
    if (r.rank() == 0) r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    if (r.rank() == 1) send[0] = INFINITY;
    r.begin();
    const Reduction op = reduction(r, OpKind::kReduce, send, r.rank() == 0 ? r.shard.data() : nullptr, 2);
    r.gate().before(op);
    if (r.rank() == 0) r.shard[0] = INFINITY;
    r.gate().after(op, stepgate::Outcome::kLaunched);
    const Step s = r.end();
    EXPECT_EQ(s.decision.reason, STEPGATE_REASON_INF);
    EXPECT_NE(s.decision.offender, STEPGATE_RANK_REDUCTION) << "rank 1's send buffer was not looked at";
  });
}

TEST(GateAttribution, InputRangesNameParameters) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    std::vector<float> send = {1, 2, 3, 4};
    gate::RangeSpec input;
    input.name = "layer";
    input.segments = {{send.data(), 1}, {send.data() + 1, 3}};
    input.parameters = {"bias", "weight"};
    input.result = false;
    r.declare(input);
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    if (r.rank() == 1) send[2] = NAN;
    r.begin();
    const Reduction op = reduction(r, OpKind::kReduceScatter, send, r.shard.data(), 2);
    r.gate().before(op);
    r.gate().after(op, stepgate::Outcome::kLaunched);
    EXPECT_EQ(r.end().decision.offender, 1);
    stepgate_offender list[4];
    std::size_t count = 4;
    ASSERT_EQ(r.gate().offenders(list, &count), STEPGATE_OK);
    ASSERT_EQ(count, r.rank() == 1 ? 1u : 0u);
    if (count == 0) return;
    EXPECT_STREQ(list[0].range, "layer");
    EXPECT_STREQ(list[0].parameter, "weight");
    EXPECT_EQ(list[0].rank, 1);
    EXPECT_EQ(list[0].step, 1u);
    EXPECT_EQ(list[0].has_nan, 1);
    EXPECT_EQ(list[0].nan, 1u);
    EXPECT_EQ(list[0].inf, 0u);
  });
}

}  // namespace
}  // namespace stepgate::test

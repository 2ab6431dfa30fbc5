// Which reductions are taken for gradients, and where steps begin in a job that says neither.
#include "plugin/core/observe/inferred_steps.h"

#include <gtest/gtest.h>

#include <vector>

namespace stepgate::gate {
namespace {

float places[8];

ncclComm_t comm_number(int i) {
  static char comms[4];
  return reinterpret_cast<ncclComm_t>(&comms[i]);
}

Reduction reduction(int place, std::size_t count = 4096, int comm = 0) {
  return {OpKind::kAllReduce, ncclFloat32, ncclSum, 0, places, places + place, count, 2,
          comm_number(comm),  nullptr};
}

struct Met {
  std::uint32_t range;
  std::uint64_t step;
};

Met meet(InferredSteps& s, const Reduction& op) {
  bool begins = false;
  const std::uint32_t id = s.meet(op, &begins);
  return {id, s.step()};
}

TEST(GradientRule, TheCommunicatorsNameWhereOneIsAskedFor) {
  struct Case {
    const char* pattern;
    const char* name;
    bool is;
  };
  const Case cases[] = {
      {"", "data", true},
      {"", nullptr, true},
      {"data", "data", true},
      {"data", "Data", false},
      {"data", nullptr, false},
      {"*", nullptr, false},
      {"*", "", true},
      {"*", "data", true},
      {"data", "data2", false},
      {"data", "dat", false},
      {"data*", "data", true},
      {"data*", "data.7", true},
      {"*data", "my data", true},
      {"*data", "data.7", false},
      {"d*a*a", "data", true},
      {"d*a*a", "dada", true},
      {"d*a*b", "data", false},
      {"*a*a*", "aa", true},
      {"*a*a*", "a", false},
      {"**", "x", true},
      {"a*b*c", "abcbc", true},
      {"a*bc", "abcbc", true},
      {"a*bd", "abcbc", false},
      {"*.0", "tensor.0.0", true},
  };
  for (const Case& c : cases) {
    Reduction op = reduction(0);
    op.comm_name = c.name;
    GradientRule rule;
    rule.comm = c.pattern;
    EXPECT_EQ(looks_like_gradient(op, rule), c.is)
        << "'" << c.pattern << "' and " << (c.name != nullptr ? c.name : "no name");
  }
}

TEST(InferredSteps, ARangeThatIsSeenAgainBeginsAStep) {
  InferredSteps s;
  bool begins = false;
  EXPECT_EQ(s.step(), 0u);
  EXPECT_EQ(s.meet(reduction(0), &begins), 0u);
  EXPECT_TRUE(begins);
  EXPECT_EQ(s.step(), 1u);
  EXPECT_EQ(s.meet(reduction(1), &begins), 1u);
  EXPECT_FALSE(begins) << "a new range joins the step that is open";
  EXPECT_EQ(s.meet(reduction(1), &begins), 1u);
  EXPECT_TRUE(begins);
  EXPECT_EQ(s.step(), 2u);
  EXPECT_EQ(s.meet(reduction(0), &begins), 0u);
  EXPECT_FALSE(begins) << "the order within a step is nobody's promise";
}

TEST(InferredSteps, NamesAreByOperationInOrder) {
  InferredSteps s;
  meet(s, reduction(0));
  Reduction scatter = reduction(1);
  scatter.kind = OpKind::kReduceScatter;
  meet(s, scatter);
  meet(s, reduction(2));
  EXPECT_EQ(s.name(0), "all_reduce.0");
  EXPECT_EQ(s.name(1), "reduce_scatter.0");
  EXPECT_EQ(s.name(2), "all_reduce.1");
}

TEST(InferredSteps, AnotherCountTypeOrCommunicatorIsAnotherRange) {
  InferredSteps s;
  EXPECT_EQ(meet(s, reduction(0)).range, 0u);
  EXPECT_EQ(meet(s, reduction(0, 2048)).range, 1u);
  EXPECT_EQ(meet(s, reduction(0, 4096, 1)).range, 2u);
  Reduction half = reduction(0);
  half.type = ncclFloat16;
  EXPECT_EQ(meet(s, half).range, 3u);
  EXPECT_EQ(s.step(), 1u);
}

// An allocator hands out other memory; a bucket is built anew.
TEST(InferredSteps, ARangeThatMovedKeepsItsNumber) {
  InferredSteps s;
  for (int step = 0; step < 3; ++step) {
    meet(s, reduction(0));
    meet(s, reduction(1));
  }
  meet(s, reduction(0));  // step 4; range 1 was last seen in step 3
  EXPECT_EQ(meet(s, reduction(2)).range, 2u) << "range 1 may still come in this step";
  meet(s, reduction(0));  // step 5
  EXPECT_EQ(meet(s, reduction(3)).range, 1u) << "it has not been seen for a whole step";
  EXPECT_EQ(s.name(1), "all_reduce.1");
  EXPECT_EQ(s.find(reduction(1)), kNoInferredRange) << "its old place is nobody's";
  EXPECT_EQ(s.find(reduction(3)), 1u);
}

TEST(InferredSteps, ACommunicatorThatIsGoneLeavesItsRangesToOthers) {
  InferredSteps s;
  meet(s, reduction(0));
  s.comm_retired(comm_number(0));
  EXPECT_EQ(s.find(reduction(0)), kNoInferredRange);
  EXPECT_EQ(meet(s, reduction(0)).range, 0u) << "the pointer came back";
  s.comm_retired(comm_number(0));
  EXPECT_EQ(meet(s, reduction(1, 4096, 1)).range, 0u);
}

// Sequences of ever new lengths, say, each of which is reduced once.
TEST(InferredSteps, EverNewSizesDoNotUseUpTheNumbers) {
  InferredSteps s;
  std::size_t fresh = 10000;
  const auto some_new_ones = [&](int n) {
    for (int i = 0; i < n; ++i) EXPECT_LT(meet(s, reduction(7, fresh++)).range, kMaxInferredRanges);
  };
  some_new_ones(static_cast<int>(kMaxInferredRanges));  // no number is left when the first gradient comes
  const std::uint32_t a = meet(s, reduction(0)).range, b = meet(s, reduction(1)).range;
  ASSERT_LT(a, kMaxInferredRanges);
  for (std::uint64_t step = 2; step < 50; ++step) {
    some_new_ones(300);
    EXPECT_EQ(meet(s, reduction(0)).range, a) << "step " << step;
    EXPECT_EQ(meet(s, reduction(1)).range, b) << "step " << step;
    EXPECT_EQ(s.step(), step);
  }
  EXPECT_EQ(s.ranges(), kMaxInferredRanges);
  EXPECT_EQ(s.turnover(a), 1u);
}

TEST(InferredSteps, WhoseCommunicatorHasGoneMakesRoomFirstAndThenTheOldest) {
  InferredSteps s;
  for (std::uint32_t i = 0; i < kMaxInferredRanges; ++i) {
    EXPECT_EQ(meet(s, reduction(0, 2000 + i, i == 5 ? 1 : 0)).range, i);
  }
  s.comm_retired(comm_number(1));
  EXPECT_EQ(meet(s, reduction(0, 1)).range, 5u);
  EXPECT_EQ(meet(s, reduction(0, 2)).range, 0u);
  EXPECT_EQ(meet(s, reduction(0, 3)).range, 1u);
  EXPECT_EQ(s.find(reduction(0, 2000)), kNoInferredRange);
  EXPECT_EQ(s.find(reduction(0, 2002)), 2u);
}

TEST(InferredSteps, ANumberThatGoesToAnotherOperationIsNamedAnew) {
  InferredSteps s;
  for (std::uint32_t i = 0; i < kMaxInferredRanges; ++i) meet(s, reduction(0, 2000 + i));
  EXPECT_EQ(meet(s, reduction(0, 1)).range, 0u);
  EXPECT_EQ(s.name(0), "all_reduce.0") << "the same operation keeps the name";
  Reduction scatter = reduction(1);
  scatter.kind = OpKind::kReduceScatter;
  EXPECT_EQ(meet(s, scatter).range, 1u);
  EXPECT_EQ(s.name(1), "reduce_scatter.0");
}

TEST(InferredSteps, RangesOfEveryStepGiveNoNumberAway) {
  InferredSteps s;
  for (int step = 0; step < 3; ++step) {
    for (std::uint32_t i = 0; i < kMaxInferredRanges; ++i) meet(s, reduction(0, 2000 + i));
  }
  EXPECT_EQ(meet(s, reduction(0, 1)).range, kNoInferredRange);
  EXPECT_EQ(meet(s, reduction(0, 2000)).range, 0u);
  meet(s, reduction(0, 2000));  // the others have been away for a step by the next one
  meet(s, reduction(0, 2000));
  EXPECT_EQ(meet(s, reduction(0, 1)).range, 1u);
}

TEST(GradientRule, WhatACallMustShow) {
  GradientRule rule;
  EXPECT_TRUE(looks_like_gradient(reduction(0), rule));
  EXPECT_TRUE(looks_like_gradient(reduction(0, 1024), rule));
  EXPECT_FALSE(looks_like_gradient(reduction(0, 1023), rule)) << "a loss, a counter";
  Reduction op = reduction(0);
  op.op = ncclAvg;
  EXPECT_TRUE(looks_like_gradient(op, rule));
  op.op = static_cast<ncclRedOp_t>(ncclNumOps + 3);
  EXPECT_TRUE(looks_like_gradient(op, rule)) << "a sum that multiplies before";
  for (const ncclRedOp_t not_a_sum : {ncclProd, ncclMax, ncclMin}) {
    op.op = not_a_sum;
    EXPECT_FALSE(looks_like_gradient(op, rule));
  }
  op = reduction(0);
  op.type = ncclInt32;
  EXPECT_FALSE(looks_like_gradient(op, rule));
  for (const ncclDataType_t floating :
       {ncclFloat16, ncclBfloat16, ncclFloat64, ncclFloat8e4m3, ncclFloat8e5m2}) {
    op.type = floating;
    EXPECT_TRUE(looks_like_gradient(op, rule)) << floating;
  }
  for (const ncclDataType_t whole : {ncclInt8, ncclUint8, ncclUint32, ncclInt64, ncclUint64}) {
    op.type = whole;
    EXPECT_FALSE(looks_like_gradient(op, rule)) << whole;
  }
  op = reduction(0);
  op.recv = nullptr;
  EXPECT_FALSE(looks_like_gradient(op, rule)) << "elsewhere than on the root of a reduce";
  op = reduction(0);
  op.kind = OpKind::kMovement;
  EXPECT_FALSE(looks_like_gradient(op, rule)) << "what is gathered is no gradient";
  rule.ranks = 4;
  EXPECT_FALSE(looks_like_gradient(reduction(0), rule)) << "its communicator has two ranks";
  rule.ranks = 2;
  EXPECT_TRUE(looks_like_gradient(reduction(0), rule));
  rule.min_count = 5000;
  EXPECT_FALSE(looks_like_gradient(reduction(0), rule));
}

}  // namespace
}  // namespace stepgate::gate

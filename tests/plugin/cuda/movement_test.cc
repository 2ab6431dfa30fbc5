// Calls that reduce nothing and fill a declared gradient: it is read behind them, wherever and whenever they
// run.
#include "plugin/core/last_error.h"
#include "tests/plugin/cuda/cuda_world.h"

namespace stepgate::test {
namespace {

// What moves is the sum of two equal buffers: their double, so that an early read shows.
ncclResult_t move_into(CudaRank& r, int buffer, device::Stream s) {
  Reduction op = r.reduction(buffer, s);
  op.kind = OpKind::kMovement;
  op.send = nullptr;
  const ncclResult_t code = r.nccl().all_reduce(r.rank(), op.recv, op.recv, op.count, op.type, s);
  r.gate().after(op, code == ncclInProgress ? stepgate::Outcome::kPending : stepgate::Outcome::kLaunched);
  return code;
}

TEST(CudaMovement, ElsewhereIsPartOfTheStep) {
  CudaWorld world({.ranks = 2, .max_delay_us = 1500});
  world.run([](CudaRank& r) {
    r.declare("there", {1});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    for (int i = 1; i <= 4; ++i) {
      r.begin();
      r.fill(1, {16384.0f * static_cast<float>(i)}, 0, r.side_stream());
      r.reduce(1, r.side_stream());
      EXPECT_EQ(move_into(r, 1, r.side_stream()), ncclSuccess);
      const CudaStep s = r.end_and_wait();
      ASSERT_TRUE(s.applies()) << s.error;
      EXPECT_EQ(s.decision.norm, i) << "step " << i << ": it was read before it was filled";
    }
    EXPECT_EQ(r.gate().counters().ranges_rescanned, 4u);
    EXPECT_EQ(r.gate().counters().reductions_passed[0], 0u) << "it is no reduction";
  });
}

TEST(CudaMovement, IsWaitedForWhereItsCommunicatorDoesNotBlock) {
  CudaWorld world({.ranks = 2});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.nccl().set_delay(r.rank(), 20000);
    for (int i = 1; i <= 2; ++i) {
      r.begin();
      r.fill(0, {32768.0f * static_cast<float>(i)});
      ASSERT_EQ(move_into(r, 0, r.stream()), ncclInProgress);
      const CudaStep s = r.end_and_wait();
      ASSERT_TRUE(s.applies()) << s.error;
      EXPECT_EQ(s.decision.norm, i) << "a scan ran ahead of it";
    }
  });
}

}  // namespace
}  // namespace stepgate::test

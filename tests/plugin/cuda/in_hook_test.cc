// Unscale in the hook on CUDA memory: on the reduction's own stream, in whole-step graphs, and once a step
// however often a graph of the backward runs.
#include "plugin/core/last_error.h"
#include "tests/plugin/cuda/cuda_world.h"

namespace stepgate::test {
namespace {

using device::cuda::GraphExecHandle;

constexpr float kScale = 65536;

CudaWorldOptions in_hook() {
  CudaWorldOptions o{.ranks = 2, .max_delay_us = 200};
  o.policy.unscale = UnscaleMode::kInHook;
  return o;
}

GraphExecHandle recorded_step(CudaRank& r) {
  return r.record(r.stream(), [&r] {
    EXPECT_EQ(r.gate().step_begin(r.stream()), STEPGATE_OK) << gate::last_error();
    EXPECT_EQ(r.reduce(0), ncclSuccess);
    EXPECT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_OK) << gate::last_error();
  });
}

TEST(CudaInHook, UnscalesBehindTheReductionOnItsStream) {
  CudaWorld world(in_hook());
  world.run([](CudaRank& r) {
    r.declare("first", {0});
    r.declare("second", {1});
    r.declare("never reduced", {2});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    for (int i = 0; i < 3; ++i) {
      r.begin();
      r.fill(0, {kScale, 2 * kScale});
      r.sync(r.stream());
      r.fill(1, {4 * kScale}, 0, r.side_stream());
      r.fill(2, {8 * kScale});
      r.reduce(0);
      r.reduce(1, r.side_stream());
      const CudaStep s = r.end_and_wait();
      ASSERT_TRUE(s.applies()) << s.error;
      EXPECT_EQ(s.decision.multiplier, 1);
      EXPECT_EQ(s.decision.grad_scale, 1);
      EXPECT_EQ(r.read(0, r.stream())[0], 2);
      EXPECT_EQ(r.read(0, r.stream())[1], 4);
      EXPECT_EQ(r.read(1, r.stream())[0], 8);
      EXPECT_EQ(r.read(2, r.stream())[0], 8);
    }
  });
}

TEST(CudaInHook, AWholeStepInAGraphUnscalesAtEveryReplay) {
  CudaWorld world(in_hook());
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const GraphExecHandle step = recorded_step(r);
    for (int i = 1; i <= 4; ++i) {
      r.fill(0, {i == 2 ? INFINITY : kScale});
      r.launch(step, r.stream());
      EXPECT_EQ(r.read_outputs().found_inf, i == 2 ? 1.0f : 0.0f);
      // After the overflow the scale is half.
      if (i != 2) {
        EXPECT_EQ(r.read(0, r.stream())[0], i < 2 ? 2 : 4);
      }
    }
  });
}

// The second run adds to what the first one left; what is multiplied is their sum, at the step's end.
TEST(CudaInHook, ABackwardThatRunsTwiceIsUnscaledOnce) {
  CudaWorld world(in_hook());
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.fill(0, {kScale});
    r.reduce(0);
    ASSERT_TRUE(r.end_and_wait().applies());
    const GraphExecHandle backward = r.record(r.side_stream(), [&] { r.reduce(0, r.side_stream()); });
    for (int i = 0; i < 2; ++i) {
      r.begin();
      r.fill(0, {kScale});
      r.launch(backward, r.stream());
      r.launch(backward, r.stream());
      const CudaStep s = r.end_and_wait();
      ASSERT_TRUE(s.applies()) << s.error;
      EXPECT_EQ(r.read(0, r.stream())[0], 4);
      EXPECT_EQ(s.decision.norm, 4);
    }
  });
}

// The device knows of the release, whenever the step was recorded.
TEST(CudaInHook, AStepRecordedBeforeTheReleaseMultipliesNothingAfterIt) {
  CudaWorldOptions o = in_hook();
  o.ranks = 1;
  CudaWorld world(o);
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const GraphExecHandle step = recorded_step(r);
    r.fill(0, {kScale});
    r.launch(step, r.stream());
    EXPECT_EQ(r.read(0, r.stream())[0], 1);
    r.nccl().fail(0, r.nccl().calls(0));
    r.begin();
    r.fill(0, {1});
    EXPECT_EQ(r.end_and_wait().status, STEPGATE_UNDECIDED);
    r.fill(0, {kScale});
    r.launch(step, r.stream());
    EXPECT_EQ(r.read_outputs().found_inf, 1.0f) << "its summary says undecided, which releases";
    r.fill(0, {kScale});
    r.launch(step, r.stream());
    EXPECT_EQ(r.read(0, r.stream())[0], kScale);
    EXPECT_EQ(r.read_outputs().found_inf, 1.0f);
  });
}

// A captured step that cannot go back to a check of the job's own: its outputs say by what to multiply.
TEST(CudaInHook, AnUnguardedReplayLeavesTheMultiplicationToTheOptimizer) {
  CudaWorldOptions o = in_hook();
  o.ranks = 1;
  o.policy.released = ReleasedPolicy::kUnguarded;
  CudaWorld world(o);
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const GraphExecHandle step = r.record(r.stream(), [&] {
      EXPECT_EQ(r.gate().step_begin(r.stream()), STEPGATE_OK) << gate::last_error();
      EXPECT_EQ(r.reduce(0), ncclSuccess);
      EXPECT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_OK) << gate::last_error();
    });
    r.nccl().fail(0, r.nccl().calls(0));
    r.begin();
    EXPECT_EQ(r.end_and_wait().status, STEPGATE_UNDECIDED);
    r.fill(0, {kScale});
    r.launch(step, r.stream());
    EXPECT_EQ(r.read_outputs().found_inf, 1.0f) << "its summary says undecided, which releases";
    for (const float x : {kScale, INFINITY}) {
      r.fill(0, {x});
      r.launch(step, r.stream());
      EXPECT_EQ(r.read(0, r.stream())[0], x);
      const Outputs out = r.read_outputs();
      EXPECT_EQ(out.found_inf, 0.0f);
      EXPECT_EQ(out.multiplier, 1 / kScale);
      EXPECT_EQ(out.grad_scale, kScale);
      const CudaStep s = r.wait();
      EXPECT_EQ(s.status, STEPGATE_RELEASED);
      EXPECT_EQ(s.decision.skip, 0);
    }
  });
}

TEST(CudaInHook, ASecondReductionInTheStepIsSkippedByAll) {
  CudaWorld world(in_hook());
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.fill(0, {kScale});
    r.reduce(0);
    r.reduce(0);
    const CudaStep s = r.end_and_wait();
    EXPECT_EQ(s.decision.reason, STEPGATE_REASON_VETO);
    EXPECT_EQ(r.read(0, r.stream())[0], 4);
  });
}

}  // namespace
}  // namespace stepgate::test

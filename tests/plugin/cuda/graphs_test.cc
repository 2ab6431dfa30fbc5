// CUDA graphs: whole steps, the backward alone, the optimizer alone; what a replay tells the device and no
// hook tells the host.
#include <cmath>

#include "plugin/core/last_error.h"
#include "tests/plugin/cuda/cuda_world.h"

namespace stepgate::test {
namespace {

using device::cuda::GraphExecHandle;

std::vector<stepgate_decision> history(CudaRank& r) {
  std::vector<stepgate_decision> list(64);
  std::size_t count = list.size();
  EXPECT_EQ(r.gate().history(0, list.data(), &count), STEPGATE_OK);
  list.resize(count);
  return list;
}

TEST(CudaGraphs, AWholeStepIsANewStepAtEveryReplay) {
  CudaWorld world({.ranks = 2, .max_delay_us = 200});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const auto body = [&] {
      EXPECT_EQ(r.gate().step_begin(r.stream()), STEPGATE_OK) << gate::last_error();
      EXPECT_EQ(r.reduce(0), ncclSuccess);
      EXPECT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_OK) << gate::last_error();
    };
    // A recording is no step, however often it is made.
    r.record(r.stream(), body);
    r.record(r.stream(), body);
    const GraphExecHandle step = r.record(r.stream(), body);
    for (int i = 1; i <= 5; ++i) {
      r.fill(0, {i == 3 && r.rank() == 1 ? NAN : 32768.0f * static_cast<float>(i)});
      r.launch(step, r.stream());
      EXPECT_EQ(r.read_outputs().found_inf, i == 3 ? 1.0f : 0.0f);
      EXPECT_EQ(r.wait().decision.step, static_cast<std::uint64_t>(i));
    }
    const std::vector<stepgate_decision> seen = history(r);
    ASSERT_EQ(seen.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(seen[i].step, i + 1);
      EXPECT_EQ(seen[i].skip, i == 2);
      // After the overflow the scale is half, so the same bytes unscale to twice as much.
      if (i != 2) {
        EXPECT_EQ(seen[i].norm, static_cast<double>(i + 1) * (i < 2 ? 1 : 2));
      }
    }
    EXPECT_EQ(seen[2].offender, 1);
    // And calls go on from there.
    r.begin();
    r.fill(0, {16384});
    r.reduce(0);
    const CudaStep s = r.end_and_wait();
    ASSERT_TRUE(s.applies()) << s.error;
    EXPECT_EQ(s.decision.step, 6u);
    EXPECT_EQ(s.decision.norm, 1);
  });
}

// PyTorch's graphed callables: forward and backward recorded with their reductions, optimizer and step end
// outside.
TEST(CudaGraphs, ABackwardAloneIsCoveredByItsReplays) {
  CudaWorld world({.ranks = 2, .max_delay_us = 200});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.fill(0, {32768});
    r.reduce(0);
    ASSERT_TRUE(r.end_and_wait().applies());
    const GraphExecHandle backward = r.record(r.side_stream(), [&] { r.reduce(0, r.side_stream()); });
    const std::uint64_t rescanned = r.gate().counters().ranges_rescanned;
    for (int i = 1; i <= 3; ++i) {
      r.begin();
      r.fill(0, {i == 2 && r.rank() == 0 ? INFINITY : 32768.0f * static_cast<float>(i)});
      r.launch(backward, r.stream());
      const CudaStep s = r.end_and_wait();
      EXPECT_EQ(s.decision.skip, i == 2) << s.error;
      EXPECT_EQ(s.decision.offender, i == 2 ? 0 : STEPGATE_RANK_UNKNOWN);
      if (i == 1) {
        EXPECT_EQ(s.decision.norm, 1);
      }
    }
    EXPECT_EQ(r.gate().counters().ranges_rescanned, rescanned);
    EXPECT_EQ(r.gate().counters().ranges_missing, 0u);
  });
}

// A step whose gradients came another way is read at its end, graph or not.
TEST(CudaGraphs, AStepWithoutAReplayIsReadAtItsEnd) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const GraphExecHandle backward = r.record(r.side_stream(), [&] { r.reduce(0, r.side_stream()); });
    r.begin();
    r.fill(0, {65536});
    r.launch(backward, r.stream());
    EXPECT_EQ(r.end_and_wait().decision.norm, 1);
    r.begin();
    r.fill(0, {2 * 65536});
    EXPECT_EQ(r.end_and_wait().decision.norm, 2) << "the last replay's statistics were taken for this step's";
    r.begin();
    r.fill(0, {3 * 65536});
    r.launch(backward, r.stream());
    r.fill(0, {4 * 65536});
    Reduction gather = r.reduction(0, r.stream());
    gather.kind = OpKind::kMovement;
    r.gate().after(gather, stepgate::Outcome::kLaunched);
    EXPECT_EQ(r.end_and_wait().decision.norm, 4) << "what a call wrote after the replay was not read";
  });
}

// A conditional scan reads nothing where the replay has scanned.
TEST(CudaGraphs, TheEndDoesNotReadTwice) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const GraphExecHandle backward = r.record(r.side_stream(), [&] { r.reduce(0, r.side_stream()); });
    r.begin();
    r.fill(0, {65536});
    r.launch(backward, r.stream());
    r.fill(0, {2 * 65536});  // behind everybody's back: only a second read would see it
    EXPECT_EQ(r.end_and_wait().decision.norm, 1);
  });
}

// Recorded and replayed within the step, on the step's own stream: the plainest way to begin with graphs.
TEST(CudaGraphs, ARecordingWithinAStepIsTakenForWhatItIs) {
  CudaWorld world({.ranks = 2});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.fill(0, {32768});
    const GraphExecHandle backward = r.record(r.stream(), [&] { r.reduce(0); });
    EXPECT_TRUE(r.gate().captured()) << "its memory is the graph's from here on";
    for (int i = 1; i <= 3; ++i) {
      if (i > 1) r.begin();
      r.fill(0, {i == 2 && r.rank() == 1 ? NAN : 32768.0f});
      r.launch(backward, r.stream());
      EXPECT_EQ(r.end_and_wait().decision.skip, i == 2);
    }
    EXPECT_EQ(r.gate().counters().ranges_missing, 0u);
    EXPECT_EQ(r.gate().counters().ranges_rescanned, 0u);
  });
}

// A capture begins and ends on a stream within the step; what is reduced there afterwards is live again.
TEST(CudaGraphs, ACaptureOnASideStreamPassesAndTheStepGoesOn) {
  CudaWorld world({.ranks = 2, .max_delay_us = 1500});
  world.run([](CudaRank& r) {
    r.declare("recorded", {0});
    r.declare("live", {1});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.fill(0, {0});
    const GraphExecHandle unused = r.record(r.side_stream(), [&] { r.reduce(0, r.side_stream()); });
    EXPECT_NE(unused, nullptr);
    r.fill(1, {r.rank() == 1 ? NAN : 1.0f}, 0, r.side_stream());
    r.reduce(1, r.side_stream());
    const CudaStep s = r.end_and_wait();
    EXPECT_EQ(s.decision.skip, 1) << "the NaN was read before it was there";
    EXPECT_EQ(s.decision.reason, STEPGATE_REASON_NAN);
  });
}

TEST(CudaGraphs, AStepIsCapturedWholeOrNotAtAll) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const GraphExecHandle begin = r.record(
        r.stream(), [&] { EXPECT_EQ(r.gate().step_begin(r.stream()), STEPGATE_OK) << gate::last_error(); });
    EXPECT_NE(begin, nullptr);
    EXPECT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_INVALID) << "an old step's figures would decide";
    EXPECT_EQ(r.gate().enforce_end(r.stream()), STEPGATE_OK) << gate::last_error();
    EXPECT_EQ(r.gate().enforce_begin(r.stream()), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.record(r.side_stream(), [&] { EXPECT_EQ(r.gate().step_end(0, r.side_stream()), STEPGATE_INVALID); });
    r.fill(0, {65536});
    EXPECT_EQ(r.end_and_wait().decision.norm, 1);
  });
}

// A graph knows the ranges of its day. One more, and its replays skip instead of passing a gradient unseen.
TEST(CudaGraphs, ARangeDeclaredAfterTheCaptureVetoesItsReplays) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const GraphExecHandle step = r.record(r.stream(), [&] {
      EXPECT_EQ(r.gate().step_begin(r.stream()), STEPGATE_OK);
      r.reduce(0);
      EXPECT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_OK);
    });
    r.declare("later", {1});
    r.fill(0, {1});
    r.fill(1, {NAN});
    r.launch(step, r.stream());
    EXPECT_EQ(r.read_outputs().found_inf, 1.0f);
  });
}

TEST(CudaGraphs, AScaleSetBetweenReplaysIsThere) {
  CudaWorld world({.ranks = 1, .max_delay_us = 2000});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const GraphExecHandle step = r.record(r.stream(), [&] {
      EXPECT_EQ(r.gate().step_begin(r.stream()), STEPGATE_OK);
      r.reduce(0);
      EXPECT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_OK);
    });
    for (int i = 1; i <= 5; ++i) {
      r.fill(0, {1024.0f * static_cast<float>(i)});
      ASSERT_EQ(r.gate().set_scale(1024.0 * i), STEPGATE_OK) << gate::last_error();
      r.launch(step, r.stream());
      EXPECT_EQ(r.read_outputs().norm, 1.0f) << "replay " << i;
    }
  });
}

TEST(CudaGraphs, AnOptimizerAloneAppliesWhatItsStepDecided) {
  StepPolicy policy;
  policy.unscale = UnscaleMode::kApply;
  CudaWorld world({.ranks = 1, .policy = policy});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const GraphExecHandle optimizer = r.record(
        r.stream(), [&] { EXPECT_EQ(r.gate().apply(0, r.stream()), STEPGATE_OK) << gate::last_error(); });
    for (const float x : {65536.0f, INFINITY, 65536.0f}) {
      r.begin();
      r.fill(0, {x, 65536});
      r.reduce(0);
      ASSERT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_OK) << gate::last_error();
      r.launch(optimizer, r.stream());
      r.launch(optimizer, r.stream());  // once is once
      const float second = r.read(0, r.stream())[1];
      EXPECT_EQ(second, std::isinf(x) ? 65536.0f : r.wait().decision.scale == 65536 ? 1.0f : 2.0f);
    }
  });
}

TEST(CudaGraphs, AVetoIsInDeviceMemory) {
  CudaWorld world({.ranks = 2});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const GraphExecHandle step = r.record(r.stream(), [&] {
      EXPECT_EQ(r.gate().step_begin(r.stream()), STEPGATE_OK);
      r.reduce(0);
      if (r.rank() == 1) {
        EXPECT_EQ(r.gate().veto(r.stream()), STEPGATE_OK);
      }
      EXPECT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_OK);
    });
    r.fill(0, {1});
    r.launch(step, r.stream());
    r.sync(r.stream());
    EXPECT_EQ(r.wait().decision.reason, STEPGATE_REASON_VETO);
    r.begin();
    r.fill(0, {1});
    r.reduce(0);
    EXPECT_TRUE(r.end_and_wait().applies()) << "a veto is of its step alone";
  });
}

TEST(CudaGraphs, ACommunicatorFirstSeenDuringACapturePassesThrough) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const auto reduce = [&] {
      Reduction op = r.reduction(0, r.stream());
      op.comm = r.nccl().second_comm(r.rank());
      r.gate().before(op);
      r.nccl().all_reduce(r.rank(), op.send, op.recv, op.count, op.type, r.stream());
      r.gate().after(op, stepgate::Outcome::kLaunched);
    };
    const std::uint64_t passed = r.gate().counters().reductions_passed[0];
    const GraphExecHandle step = r.record(r.stream(), [&] {
      EXPECT_EQ(r.gate().step_begin(r.stream()), STEPGATE_OK);
      reduce();
      EXPECT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_OK) << gate::last_error();
    });
    EXPECT_EQ(r.gate().counters().reductions_passed[0], passed + 1);
    r.fill(0, {65536});
    r.launch(step, r.stream());
    EXPECT_EQ(r.read_outputs().norm, 1.0f) << "it is read at the step's end";
    // Seen outside of a capture it is an ordinary one.
    const std::uint64_t scanned = r.gate().counters().reductions_scanned[0];
    r.begin();
    reduce();
    EXPECT_TRUE(r.end_and_wait().applies());
    EXPECT_EQ(r.gate().counters().reductions_scanned[0], scanned + 1);
  });
}

// A graph of a retired range may still run: its slot is nobody else's.
TEST(CudaGraphs, ARetiredRangesGraphSpoilsNoOther) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    const std::uint32_t old = r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const GraphExecHandle backward = r.record(r.side_stream(), [&] { r.reduce(0, r.side_stream()); });
    ASSERT_EQ(r.gate().retire_range(old), STEPGATE_OK) << gate::last_error();
    EXPECT_NE(r.declare("bucket", {1}), old);
    r.begin();
    r.fill(0, {NAN});
    r.fill(1, {65536});
    r.reduce(1);
    r.launch(backward, r.stream());
    const CudaStep s = r.end_and_wait();
    EXPECT_EQ(s.decision.norm, 1) << s.error << " reason " << s.decision.reason;
    EXPECT_TRUE(r.gate().captured());
  });
}

// The job may capture whatever it likes meanwhile: calls between steps use the gate's own stream.
TEST(CudaGraphs, CallsBetweenStepsLeaveACaptureAlone) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    const std::uint32_t other = r.declare("other", {1});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const GraphExecHandle nothing = r.record(r.stream(), [&] {
      stepgate_scaler_info info{};
      double fields[STEPGATE_ACTIVATION_FIELDS];
      EXPECT_EQ(r.gate().state(&info), STEPGATE_OK) << gate::last_error();
      EXPECT_EQ(r.gate().set_scale(1024), STEPGATE_OK) << gate::last_error();
      EXPECT_EQ(r.gate().range_absent(other, true), STEPGATE_OK) << gate::last_error();
      r.declare("third", {2});
      EXPECT_EQ(r.gate().enforce_begin(r.stream()), STEPGATE_INVALID) << "the exchange cannot be recorded";
      EXPECT_EQ(r.gate().enforce_summarize(r.stream(), fields), STEPGATE_INVALID);
    });
    EXPECT_NE(nothing, nullptr);
    r.begin();
    r.fill(0, {1024});
    r.fill(1, {NAN});
    const CudaStep s = r.end_and_wait();
    EXPECT_EQ(s.decision.norm, 1) << s.error << " reason " << s.decision.reason;
    EXPECT_EQ(s.decision.scale, 1024);
  });
}

TEST(CudaGraphs, AStepThatIsRecordedTakesNoOtherCalls) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    const std::uint32_t id = r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const GraphExecHandle step = r.record(r.stream(), [&] {
      stepgate_decision d{};
      EXPECT_EQ(r.gate().step_begin(r.stream()), STEPGATE_OK);
      EXPECT_EQ(r.gate().range_absent(id, true), STEPGATE_INVALID);
      EXPECT_EQ(r.gate().retire_range(id), STEPGATE_INVALID);
      EXPECT_EQ(r.gate().step_wait(0, &d), STEPGATE_INVALID);
      double fields[STEPGATE_SUMMARY_FIELDS];
      EXPECT_EQ(r.gate().summarize(0, r.stream(), fields), STEPGATE_INVALID) << "no kernel writes there";
      EXPECT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_OK) << gate::last_error();
    });
    r.fill(0, {65536});
    r.launch(step, r.stream());
    r.sync(r.stream());
    EXPECT_EQ(r.wait().decision.norm, 1);
  });
}

}  // namespace
}  // namespace stepgate::test

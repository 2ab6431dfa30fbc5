// Several streams and communicators in one step, and communicators whose helper threads launch later.
#include <cmath>

#include "plugin/core/last_error.h"
#include "tests/plugin/cuda/cuda_world.h"

namespace stepgate::test {
namespace {

// Delays between the operations of every stream: what is not ordered comes in the wrong order.
constexpr unsigned kDelay = 1500;

TEST(CudaStreams, AReductionElsewhereIsPartOfTheStep) {
  CudaWorld world({.ranks = 2, .max_delay_us = kDelay});
  world.run([](CudaRank& r) {
    r.declare("here", {0});
    r.declare("there", {1});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    for (int i = 1; i <= 4; ++i) {
      const auto x = static_cast<float>(i) * 32768;
      r.begin();
      r.fill(0, {3 * x});
      r.fill(1, {4 * x}, 0, r.side_stream());
      r.reduce(1, r.side_stream());
      r.reduce(0);
      const CudaStep s = r.end_and_wait();
      ASSERT_TRUE(s.applies()) << s.error;
      EXPECT_EQ(s.decision.norm, 5 * i) << "step " << i;
    }
    EXPECT_EQ(r.gate().counters().ranges_rescanned, 0u);
    EXPECT_EQ(r.gate().counters().ranges_missing, 0u);
  });
}

TEST(CudaStreams, ALocalNanElsewhereIsNamed) {
  CudaWorld world({.ranks = 2, .max_delay_us = kDelay});
  world.run([](CudaRank& r) {
    r.declare("there", {1});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    for (int i = 0; i < 4; ++i) {
      r.begin();
      r.fill(1, {i % 2 == 1 && r.rank() == 1 ? NAN : 1.0f}, 0, r.side_stream());
      r.reduce(1, r.side_stream());
      const CudaStep s = r.end_and_wait();
      EXPECT_EQ(s.decision.skip, i % 2);
      EXPECT_EQ(s.decision.offender, i % 2 == 1 ? 1 : STEPGATE_RANK_UNKNOWN) << "step " << i + 1;
    }
  });
}

// From one buffer into another, with no declared result behind it: still part of the step.
ncclResult_t reduce_into(CudaRank& r, OpKind kind, int from, int to, device::Stream s) {
  Reduction op = r.reduction(from, s);
  op.kind = kind;
  op.recv = kind == OpKind::kReduce && r.rank() != 0 ? nullptr : r.buffer(to);
  r.gate().before(op);
  const ncclResult_t code = r.nccl().all_reduce(r.rank(), op.send, r.buffer(to), op.count, op.type, s);
  r.gate().after(op, stepgate::Outcome::kLaunched);
  return code;
}

TEST(CudaStreams, WhatIsSentElsewhereIsReadBeforeTheEnd) {
  CudaWorld world({.ranks = 2, .max_delay_us = kDelay});
  world.run([](CudaRank& r) {
    r.declare("sent", {0}, [](gate::RangeSpec& s) { s.result = false; });
    r.declare("result", {2});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    for (int i = 0; i < 6; ++i) {
      r.begin();
      r.fill(0, {i % 2 == 1 && r.rank() == 1 ? NAN : 1.0f}, 0, r.side_stream());
      reduce_into(r, OpKind::kAllReduce, 0, 1, r.side_stream());
      r.fill(2, {1});
      r.reduce(2);
      const CudaStep s = r.end_and_wait();
      EXPECT_EQ(s.decision.skip, i % 2) << "step " << i + 1 << s.error;
      EXPECT_EQ(s.decision.offender, i % 2 == 1 ? 1 : STEPGATE_RANK_UNKNOWN) << "step " << i + 1;
    }
  });
}

// One range of a rank in two reductions, on streams that nobody has tied together.
TEST(CudaStreams, ARangeThatTwoStreamsSendIsCountedRight) {
  CudaWorld world({.ranks = 2, .max_delay_us = kDelay});
  world.run([](CudaRank& r) {
    r.declare("sent", {0}, [](gate::RangeSpec& s) { s.result = false; });
    r.declare("result", {1, 2});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    for (int i = 0; i < 6; ++i) {
      r.begin();
      r.fill(0, {1, i % 2 == 1 && r.rank() == 0 ? INFINITY : 1.0f});
      r.sync(r.stream());
      reduce_into(r, OpKind::kAllReduce, 0, 1, r.side_stream());
      reduce_into(r, OpKind::kAllReduce, 0, 2, r.stream());
      reduce_into(r, OpKind::kAllReduce, 0, 3, r.side_stream());
      const CudaStep s = r.end_and_wait();
      EXPECT_EQ(s.decision.skip, i % 2) << "step " << i + 1 << s.error;
      EXPECT_EQ(s.decision.offender, i % 2 == 1 ? 0 : STEPGATE_RANK_UNKNOWN) << "step " << i + 1;
      std::vector<stepgate_offender> list(8);
      std::size_t count = list.size();
      ASSERT_EQ(r.gate().offenders(list.data(), &count), STEPGATE_OK);
      ASSERT_EQ(count, r.rank() == 0 ? static_cast<std::size_t>(i + 1) / 2 : 0u);
      if (count != 0) {
        EXPECT_EQ(list[count - 1].inf, 1u);
        EXPECT_STREQ(list[count - 1].parameter, "sent.0");
      }
    }
  });
}

// The result is on the root alone; the other rank tells what it sent.
TEST(CudaStreams, AReduceIsReadOnItsRoot) {
  CudaWorld world({.ranks = 2, .max_delay_us = kDelay});
  world.run([](CudaRank& r) {
    r.declare("sent", {0}, [](gate::RangeSpec& s) { s.result = false; });
    if (r.rank() == 0) {
      r.declare("result", {1});
    }
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    for (int i = 0; i < 4; ++i) {
      r.begin();
      r.fill(0, {i % 2 == 1 && r.rank() == 1 ? NAN : 32768.0f}, 0, r.side_stream());
      reduce_into(r, OpKind::kReduce, 0, 1, r.side_stream());
      const CudaStep s = r.end_and_wait();
      EXPECT_EQ(s.decision.skip, i % 2) << "step " << i + 1 << s.error;
      EXPECT_EQ(s.decision.offender, i % 2 == 1 ? 1 : STEPGATE_RANK_UNKNOWN) << "step " << i + 1;
      if (i == 0) {
        EXPECT_EQ(s.decision.norm, 1);
      }
      if (i == 2) {
        EXPECT_EQ(s.decision.norm, 2);
      }
    }
    EXPECT_EQ(r.gate().counters().ranges_missing, 0u);
  });
}

// What no hook saw is read after what the other streams carry.
TEST(CudaStreams, ARangeThatIsNotFinalIsReadAfterItsReduction) {
  CudaWorld world({.ranks = 2, .max_delay_us = kDelay});
  world.run([](CudaRank& r) {
    r.declare("there", {1}, [](gate::RangeSpec& s) { s.is_final = false; });
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    for (int i = 1; i <= 3; ++i) {
      r.begin();
      r.fill(1, {32768.0f * static_cast<float>(i)}, 0, r.side_stream());
      r.reduce(1, r.side_stream());
      EXPECT_EQ(r.end_and_wait().decision.norm, i);
    }
  });
}

TEST(CudaStreams, AStepMayMoveFromStreamToStream) {
  CudaWorld world({.ranks = 1, .max_delay_us = kDelay});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    for (int i = 1; i <= 4; ++i) {
      const bool swap = i % 2 == 0;
      const device::Stream first = swap ? r.side_stream() : r.stream();
      const device::Stream last = swap ? r.stream() : r.side_stream();
      ASSERT_EQ(r.gate().step_begin(first), STEPGATE_OK);
      r.fill(0, {65536.0f * static_cast<float>(i)}, 0, first);
      r.reduce(0, first);
      ASSERT_EQ(r.gate().step_end(0, last), STEPGATE_OK) << gate::last_error();
      const CudaStep s = r.wait();
      EXPECT_EQ(s.decision.norm, i);
      EXPECT_EQ(s.decision.step, static_cast<std::uint64_t>(i));
    }
  });
}

// A job may destroy a stream once its own work there is done. Nothing is asked of it any more; the stand-in
// counts what is.
TEST(CudaStreams, AStreamThatIsGoneIsNotTouchedAgain) {
  CudaWorld world({.ranks = 1, .max_delay_us = kDelay});
  world.run([](CudaRank& r) {
    const std::uint32_t id = r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    for (int i = 1; i <= 3; ++i) {
      const device::Stream s = r.make_stream();
      ASSERT_EQ(r.gate().step_begin(s), STEPGATE_OK) << gate::last_error();
      r.fill(0, {65536.0f * static_cast<float>(i)}, 0, s);
      r.reduce(0, s);
      ASSERT_EQ(r.gate().step_end(0, s), STEPGATE_OK) << gate::last_error();
      r.destroy_stream(s);
      EXPECT_EQ(r.wait().decision.norm, i);
      stepgate_scaler_info info{};
      EXPECT_EQ(r.gate().state(&info), STEPGATE_OK) << gate::last_error();
      EXPECT_EQ(r.gate().range_absent(id, false), STEPGATE_OK) << gate::last_error();
    }
  });
}

// A range that is declared, or comes back, within the step is known to the scans that follow on any stream.
TEST(CudaStreams, WhatIsDeclaredWithinAStepComesFirst) {
  CudaWorld world({.ranks = 1, .max_delay_us = kDelay});
  world.run([](CudaRank& r) {
    r.declare("first", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    for (int i = 1; i <= 10; ++i) {
      r.begin();
      r.fill(0, {3 * 65536}, 0, r.side_stream());
      r.fill(1, {4 * 65536}, 0, r.side_stream());
      r.reduce(0, r.side_stream());
      r.sync(r.side_stream());
      const std::uint32_t late = r.declare("late", {1});
      r.reduce(1, r.side_stream());
      const CudaStep s = r.end_and_wait();
      EXPECT_EQ(s.decision.norm, 5) << s.error << " reason " << s.decision.reason;
      ASSERT_EQ(r.gate().retire_range(late), STEPGATE_OK);
    }
  });
}

// A side stream may go as soon as its work is enqueued; the step's end waits for its mark alone.
TEST(CudaStreams, ASideStreamMayGoBeforeTheEnd) {
  CudaWorld world({.ranks = 1, .max_delay_us = kDelay});
  world.run([](CudaRank& r) {
    r.declare("there", {1});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    const device::Stream s = r.make_stream();
    r.fill(1, {65536}, 0, s);
    r.reduce(1, s);
    r.destroy_stream(s);
    EXPECT_EQ(r.end_and_wait().decision.norm, 1);
  });
}

// The job captures on the stream that the step began on, for later; the step ends elsewhere. Neither may
// spoil the other.
TEST(CudaStreams, TheStepsStreamMayBeCapturedByTheEnd) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.fill(0, {1});
    r.reduce(0);
    r.sync(r.stream());
    r.record(r.stream(),
             [&] { EXPECT_EQ(r.gate().step_end(0, r.side_stream()), STEPGATE_OK) << gate::last_error(); });
    EXPECT_EQ(r.wait().decision.skip, 1) << "the end could not be put behind the step's stream";
  });
}

TEST(CudaStreams, TheStreamOfAThreadIsRefused) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    EXPECT_EQ(r.gate().step_begin(gate::kPerThreadStream), STEPGATE_INVALID);
    EXPECT_EQ(r.gate().enforce_begin(gate::kPerThreadStream), STEPGATE_INVALID);
  });
}

// ---- non-blocking communicators

TEST(CudaNonBlocking, IsReadOnceItIsLaunched) {
  CudaWorld world({.ranks = 2});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.nccl().set_delay(r.rank(), 20000);
    for (int i = 1; i <= 2; ++i) {
      r.begin();
      r.fill(0, {32768.0f * static_cast<float>(i)});
      ASSERT_EQ(r.reduce(0), ncclInProgress);
      const CudaStep s = r.end_and_wait();
      ASSERT_TRUE(s.applies()) << s.error;
      EXPECT_EQ(s.decision.norm, i) << "a scan ran ahead of the reduction";
    }
    EXPECT_EQ(r.gate().counters().reductions_scanned[0], 2u);
    EXPECT_EQ(r.gate().counters().ranges_rescanned, 0u);
  });
}

TEST(CudaNonBlocking, TheJobsOwnQuestionFlushes) {
  CudaWorld world({.ranks = 2});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.nccl().set_delay(r.rank(), 5000);
    r.begin();
    r.fill(0, {32768});
    ASSERT_EQ(r.reduce(0), ncclInProgress);
    while (r.nccl().async_error(r.rank()) == ncclInProgress) std::this_thread::yield();
    // From a thread that issued nothing: nothing is enqueued.
    std::thread([&] { r.gate().settled(r.comm()); }).join();
    EXPECT_EQ(r.gate().counters().reductions_scanned[0], 0u);
    r.gate().settled(r.comm());
    EXPECT_EQ(r.gate().counters().reductions_scanned[0], 1u);
    EXPECT_EQ(r.end_and_wait().decision.norm, 1);
  });
}

TEST(CudaNonBlocking, WhatAnotherThreadIssuedIsReadAtTheEnd) {
  CudaWorld world({.ranks = 2});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.nccl().set_delay(r.rank(), 5000);
    r.begin();
    r.fill(0, {32768});
    std::thread([&] { EXPECT_EQ(r.reduce(0), ncclInProgress); }).join();
    EXPECT_EQ(r.end_and_wait().decision.norm, 1);
    EXPECT_EQ(r.gate().counters().ranges_rescanned, 1u);
  });
}

// NCCL frees a communicator that was aborted: it is not asked again, however long the deadline is.
TEST(CudaNonBlocking, ARetiredCommunicatorIsNotPolled) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.nccl().set_delay(r.rank(), 300000);
    r.begin();
    r.fill(0, {1});
    ASSERT_EQ(r.reduce(0), ncclInProgress);
    std::thread abort([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      r.gate().comm_retired(r.comm());
    });
    EXPECT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_UNDECIDED);
    EXPECT_EQ(r.nccl().async_error(r.rank()), ncclInProgress) << "it waited for the helper thread";
    abort.join();
    while (r.nccl().async_error(r.rank()) == ncclInProgress) std::this_thread::yield();
  });
}

// A communicator that goes takes with it the word on what it had pending: that step is skipped on all ranks.
TEST(CudaNonBlocking, ACommunicatorThatGoesVetoesWhatItHadPending) {
  CudaWorld world({.ranks = 2});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.fill(0, {1});
    Reduction op = r.reduction(0, r.stream());
    op.comm = r.nccl().second_comm(r.rank());
    r.gate().before(op);
    r.gate().after(op, stepgate::Outcome::kPending);
    r.gate().comm_retired(op.comm);
    const CudaStep s = r.end_and_wait();
    EXPECT_EQ(s.decision.skip, 1);
    EXPECT_EQ(s.decision.reason, STEPGATE_REASON_VETO);
    // The pointer comes back as another communicator, which owes nothing and is asked again.
    r.begin();
    r.fill(0, {32768});
    r.gate().before(op);
    ASSERT_EQ(r.nccl().all_reduce(r.rank(), op.send, op.recv, op.count, op.type, r.stream()), ncclSuccess);
    r.gate().after(op, stepgate::Outcome::kPending);
    EXPECT_TRUE(r.end_and_wait().applies());
  });
}

}  // namespace
}  // namespace stepgate::test

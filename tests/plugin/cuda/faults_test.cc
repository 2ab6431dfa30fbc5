// Any single driver call failing at any point: the job's own reduction runs with its own arguments, no two
// ranks hold different decisions, nothing leaks and nothing hangs.
#include <cmath>

#include "plugin/core/last_error.h"
#include "tests/plugin/cuda/cuda_world.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

constexpr int kSteps = 3;
// Whole lives of two devices take seconds under a sanitizer: there every fifth call, from a random one on.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kStride = 5;
#else
constexpr int kStride = 1;
#endif
constexpr int kInvalidValue = 1;  // a code that says nothing of the context's health

struct Told {
  CudaStep step;
  float reduced = 0;  // what the job's own reduction left in its buffer
};
using History = std::vector<std::vector<Told>>;  // [rank][step]

// Calls that the job and its NCCL make here; they are not ours to fail.
bool is_the_jobs(const std::string& name) {
  return name == "cuMemcpyDtoHAsync_v2" || name == "cuLaunchHostFunc" || name == "cuMemcpyHtoDAsync_v2" ||
         name == "cuCtxPushCurrent_v2" || name == "cuCtxPopCurrent_v2";
}

// Two ranks, three steps; the index-th call of `name` after activation fails on whichever rank makes it.
// An index below zero: none.
History run_with_fault(const std::string& name, std::int64_t index,
                       std::map<std::string, std::int64_t>* calls) {
  CudaWorld world({.ranks = 2});
  History run(2, std::vector<Told>(kSteps));
  std::atomic<int> ready{0};
  std::atomic<bool> armed{false};
  world.run([&](CudaRank& r) {
    r.declare("here", {0});
    r.declare("there", {1});
    EXPECT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.sync(r.stream());
    if (++ready == 2) {
      r.standin().control().forget_calls();
      if (index >= 0) {
        r.standin().control().fail(name.c_str(), static_cast<std::uint64_t>(index), kInvalidValue, 1);
      }
      armed = true;
    }
    while (!armed) std::this_thread::yield();
    for (int i = 0; i < kSteps; ++i) {
      Told& told = run[static_cast<std::size_t>(r.rank())][static_cast<std::size_t>(i)];
      EXPECT_EQ(r.gate().step_begin(r.stream()), STEPGATE_OK) << gate::last_error();
      EXPECT_EQ(r.reduce(1, r.side_stream()), ncclSuccess);
      EXPECT_EQ(r.reduce(0), ncclSuccess);
      told.step = r.end_and_wait();
    }
    if (++ready == 4) {
      if (calls != nullptr) {
        for (const standin::CallRecord& c : r.standin().calls()) ++(*calls)[c.name];
      }
      r.standin().control().heal();
    }
    while (ready < 4) std::this_thread::yield();
    const float mine = r.read(0, r.stream())[0];
    run[static_cast<std::size_t>(r.rank())][kSteps - 1].reduced = mine;
  });
  return run;
}

void expect_never_different(const History& run) {
  for (int i = 0; i < kSteps; ++i) {
    const CudaStep& a = run[0][static_cast<std::size_t>(i)].step;
    const CudaStep& b = run[1][static_cast<std::size_t>(i)].step;
    SCOPED_TRACE("step " + std::to_string(i + 1) + ": " + a.error + " | " + b.error);
    const bool undecided = a.status == STEPGATE_UNDECIDED || b.status == STEPGATE_UNDECIDED;
    if (!undecided) {
      EXPECT_EQ(a.status, b.status);
      EXPECT_EQ(a.decision.skip, b.decision.skip);
      EXPECT_EQ(a.decision.next_scale, b.decision.next_scale);
    } else if (i + 1 < kSteps) {
      // One was cut off, or both: neither gets past the next exchange.
      for (const auto& rank : run) {
        EXPECT_NE(rank[static_cast<std::size_t>(i) + 1].step.status, STEPGATE_OK);
      }
    }
    if (a.status != STEPGATE_OK) {
      EXPECT_EQ(a.decision.skip, 1);
    }
  }
}

TEST(CudaGateFaults, AnySingleDriverCall) {
  std::map<std::string, std::int64_t> calls;
  const History healthy = run_with_fault("", -1, &calls);
  for (const auto& rank : healthy) {
    for (const Told& t : rank) ASSERT_EQ(t.step.status, STEPGATE_OK) << t.step.error;
  }
  ASSERT_GE(calls["cuLaunchKernel"], 2 * kSteps * 7);
  int failures = 0, released = 0;
  for (const auto& [name, count] : calls) {
    if (is_the_jobs(name)) continue;
    for (std::int64_t i = static_cast<std::int64_t>(test_seed() % kStride); i < count; i += kStride) {
      SCOPED_TRACE(name + " call " + std::to_string(i) + " of " + std::to_string(count));
      const History run = run_with_fault(name, i, nullptr);
      expect_never_different(run);
      ++failures;
      for (const Told& t : run[0]) released += t.step.status == STEPGATE_RELEASED;
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(failures, 40 / kStride);
  EXPECT_GT(released, 0) << "no fault ever released anybody: the faults hit nothing";
}

// A stream with a gradient that cannot be put behind the step's begin, or the end behind it: nobody knows
// what was read.
TEST(CudaGateFaults, AStreamThatCannotBeOrderedReleases) {
  for (const bool at_the_end : {false, true}) {
    SCOPED_TRACE(at_the_end);
    CudaWorld world({.ranks = 1});
    world.run([&](CudaRank& r) {
      r.declare("bucket", {0});
      ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
      const auto reduce = [&r] { r.reduce(0, r.side_stream()); };
      r.begin();
      r.fill(0, {1}, 0, r.side_stream());
      if (at_the_end) reduce();
      r.sync(r.side_stream());
      r.standin().control().forget_calls();
      r.standin().control().fail("cuStreamWaitEvent", 0, kInvalidValue, 1);
      if (!at_the_end) reduce();
      EXPECT_EQ(r.end_and_wait().status, STEPGATE_RELEASED);
      r.standin().control().heal();
    });
  }
}

// The halves with the caller's array in device memory: no failing call makes the host read there.
TEST(CudaGateFaults, AnySingleDriverCallBetweenTheHalves) {
  for (std::uint64_t index = 0; index < 60; index += kStride) {
    SCOPED_TRACE(index);
    CudaWorld world({.ranks = 1});
    world.run([&](CudaRank& r) {
      r.declare("bucket", {0});
      ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
      auto* fields = static_cast<double*>(
          r.device().allocate(STEPGATE_SUMMARY_FIELDS * sizeof(double), device::Memory::kDevice));
      r.standin().control().fail(nullptr, index, kInvalidValue, 1);
      stepgate_status status = r.gate().step_begin(r.stream());
      if (status == STEPGATE_OK) status = r.gate().summarize(0, r.stream(), fields);
      if (status == STEPGATE_OK) status = r.gate().decide(0, r.stream());
      if (status == STEPGATE_OK) status = r.gate().scaler_update(r.stream());
      r.standin().control().heal();
      if (status != STEPGATE_OK) {
        // It was cut off somewhere: no step passes as if nothing had been.
        r.gate().scaler_update(r.stream());
        r.begin();
        r.fill(0, {1});
        EXPECT_FALSE(r.end_and_wait().applies());
      }
      r.sync(r.stream());
      r.device().release(fields, device::Memory::kDevice);
    });
    if (testing::Test::HasFailure()) return;
  }
}

// A rank that is cut off from an exchange says so in the next one, and all are released there.
TEST(CudaGateFaults, ARankThatTheExchangeFailsReleasesAll) {
  CudaWorld world({.ranks = 2});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    // Call 0 was the activation; 1 is the first step's exchange.
    if (r.rank() == 1) r.nccl().fail(1, 1);
    r.begin();
    r.fill(0, {1});
    CudaStep s = r.end_and_wait();
    if (r.rank() == 1) {
      EXPECT_EQ(s.status, STEPGATE_UNDECIDED);
      EXPECT_EQ(r.read_outputs().found_inf, 1.0f);
    } else {
      EXPECT_EQ(s.status, STEPGATE_RELEASED) << "one contributor is missing";
    }
    r.begin();
    r.fill(0, {1});
    EXPECT_EQ(r.end_and_wait().status, STEPGATE_RELEASED);
    EXPECT_EQ(r.read_outputs().found_inf, 1.0f);
    // A new activation ends it.
    EXPECT_EQ(r.gate().enforce_end(r.stream()), STEPGATE_OK) << gate::last_error();
    EXPECT_EQ(r.gate().enforce_begin(r.stream()), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.fill(0, {1});
    EXPECT_TRUE(r.end_and_wait().applies());
  });
}

}  // namespace
}  // namespace stepgate::test

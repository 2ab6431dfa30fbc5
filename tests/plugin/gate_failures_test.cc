// Fail open, never alone: whatever fails on one rank, no two ranks hold different decisions for one
// step, nobody applies what the others do not for longer than one exchange, and nobody waits for ever.
#include "tests/plugin/fake_world.h"

namespace stepgate::test {
namespace {

constexpr int kRanks = 3, kSteps = 3, kFaulty = 1;

// ---- every device call, one after the other

struct Told {
  Step step;
  bool failed_before_exchange = false;  // of this step, on this rank
};
using Run = std::vector<std::vector<Told>>;  // by rank, by step

// Calls that a step makes before its exchange and never after it.
bool before_exchange(FaultyDevice::Call call) {
  return call == FaultyDevice::kBeginStep || call == FaultyDevice::kScan ||
         call == FaultyDevice::kSummarize || call == FaultyDevice::kCopyIn;
}

// One bucket that the ranks reduce, seen by the hooks, and a shard of their own that nobody else sees.
Told faulty_step(Rank& r, std::vector<float>& bucket, int step, float gradient) {
  const std::int64_t failures = r.device().failures();
  r.shard[1] = r.rank() == kFaulty && step == 2 ? gradient : 1.0f;
  std::fill(bucket.begin(), bucket.end(), 1.0f);
  r.begin();
  r.all_reduce(bucket);
  Told t;
  t.step = r.end();
  t.failed_before_exchange = r.device().failures() > failures && before_exchange(r.device().failed_call());
  return t;
}

Run run_with_fault(std::int64_t index, bool for_ever, float gradient, std::uint64_t seed,
                   std::int64_t* calls = nullptr) {
  WorldOptions o;
  o.ranks = kRanks;
  o.quiet = true;
  o.seed = seed;
  World world(o);
  Run run(kRanks);
  world.run([&](Rank& r) {
    std::vector<float> bucket(3);
    r.declare("bucket", {&bucket});
    r.declare("shard", {&r.shard});
    EXPECT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    if (r.rank() == kFaulty) r.device().fail_at(index, for_ever);
    for (int step = 1; step <= kSteps; ++step) {
      run[static_cast<std::size_t>(r.rank())].push_back(faulty_step(r, bucket, step, gradient));
    }
    if (calls != nullptr && r.rank() == kFaulty) *calls = r.device().calls();
  });
  return run;
}

// A rank whose device is gone for good may never learn that it was released; it knows of no decision.
bool all_released(const Run& run, std::size_t step) {
  for (std::size_t r = 0; r < kRanks; ++r) {
    const stepgate_status status = run[r][step].step.status;
    if (status == STEPGATE_UNDECIDED && r == kFaulty) continue;
    if (status != STEPGATE_RELEASED) return false;
  }
  return true;
}

void expect_never_alone(const Run& run, std::size_t step) {
  const Step& healthy = run[0][step].step;
  for (std::size_t r = 0; r < kRanks; ++r) {
    const Step& s = run[r][step].step;
    SCOPED_TRACE("rank " + std::to_string(r) + ": " + s.error);
    if (r != kFaulty) {
      EXPECT_EQ(s.status, healthy.status);
      EXPECT_EQ(s.decision.skip, healthy.decision.skip);
    } else if (s.status != STEPGATE_UNDECIDED) {
      EXPECT_EQ(s.status, healthy.status) << "this rank decided otherwise than the others";
      EXPECT_EQ(s.decision.skip, healthy.decision.skip);
    }
    if (s.status != STEPGATE_OK) {
      EXPECT_EQ(s.decision.skip, 1);
    }
  }
}

void expect_fails_open(const Run& run, bool for_ever) {
  for (std::size_t step = 0; step < kSteps; ++step) {
    SCOPED_TRACE("step " + std::to_string(step + 1));
    expect_never_alone(run, step);
    const Told& faulty = run[kFaulty][step];
    const bool cut_off = faulty.step.status == STEPGATE_UNDECIDED;
    if (faulty.failed_before_exchange && !for_ever) {
      EXPECT_FALSE(cut_off) << "a failure before the exchange still joins it";
    }
    if (cut_off && step + 1 < kSteps) {
      EXPECT_TRUE(all_released(run, step + 1)) << "a cut off rank releases all at the next exchange";
    }
    if (step > 0 && all_released(run, step - 1)) {
      EXPECT_TRUE(all_released(run, step)) << "a release is final";
    }
  }
}

void fail_every_call(bool for_ever, float gradient) {
  std::mt19937_64 random = seeded("fault injection");
  std::int64_t calls = 0;
  run_with_fault(FaultyDevice::kForEver, false, gradient, random(), &calls);
  ASSERT_GE(calls, 3 * 8) << "the dry run makes no device calls";
  int released = 0;
  for (std::int64_t index = 0; index < calls; ++index) {
    SCOPED_TRACE("device call " + std::to_string(index) + (for_ever ? " and all after it" : ""));
    const Run run = run_with_fault(index, for_ever, gradient, random());
    expect_fails_open(run, for_ever);
    released += all_released(run, kSteps - 1);
    // A NaN that its rank could not count may still not be applied by anybody.
    if (std::isnan(gradient)) {
      for (std::size_t r = 0; r < kRanks; ++r) EXPECT_FALSE(run[r][1].step.applies());
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(released, 0) << "no fault ever released anybody: the faults hit nothing";
}

TEST(GateFailures, EveryDeviceCallFailingOnceOnOneRank) {
  fail_every_call(false, 1.0f);
}
TEST(GateFailures, EveryDeviceCallFailingOnceWhileThatRankHoldsANan) {
  fail_every_call(false, NAN);
}
TEST(GateFailures, DeviceDyingAtEveryCall) {
  fail_every_call(true, 1.0f);
}
TEST(GateFailures, DeviceDyingAtEveryCallWhileThatRankHoldsANan) {
  fail_every_call(true, NAN);
}

// ---- before the exchange: released in that very step

void released_in_this_step(FaultyDevice::Call call, std::int64_t after, std::int64_t count = 1) {
  SCOPED_TRACE(FaultyDevice::kNames[call]);
  World world({.ranks = 4});
  world.run([&](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    EXPECT_TRUE(r.step().applies());
    if (r.rank() == 2) r.device().fail(call, after, count);
    const Step s = r.step();
    EXPECT_EQ(s.status, STEPGATE_RELEASED) << s.error;
    EXPECT_EQ(s.decision.skip, 1);
    EXPECT_EQ(s.decision.released, 1);
    EXPECT_EQ(s.found_inf, 1.0f);
    EXPECT_EQ(s.decision.next_scale, 65536) << "a release freezes the scale";
    r.device().heal();
    const Step next = r.step();
    EXPECT_EQ(next.status, STEPGATE_RELEASED) << "until a new activation";
    EXPECT_EQ(next.found_inf, 1.0f);
    using metrics::ReleaseReason;
    EXPECT_EQ(r.gate().counters().enforce_released[static_cast<std::size_t>(ReleaseReason::kDegraded)], 1u);
  });
}

TEST(GateFailures, FailureBeforeTheExchangeReleasesAllInThatStep) {
  released_in_this_step(FaultyDevice::kBeginStep, 0);
  released_in_this_step(FaultyDevice::kScan, 0);
  released_in_this_step(FaultyDevice::kSummarize, 0);
}

TEST(GateFailures, ANewActivationEndsTheRelease) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    if (r.rank() == 0) r.device().fail(FaultyDevice::kScan, 0);
    EXPECT_EQ(r.step().status, STEPGATE_RELEASED);
    ASSERT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_OK) << gate::last_error();
    EXPECT_TRUE(r.step().applies());
  });
}

TEST(GateFailures, LeavingTogether) {
  World world({.ranks = 3});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    EXPECT_TRUE(r.step().applies());
    ASSERT_EQ(r.gate().enforce_end(nullptr), STEPGATE_OK);
    EXPECT_EQ(r.gate().step_begin(nullptr), STEPGATE_INACTIVE);
    EXPECT_FALSE(r.gate().enforcing());
    EXPECT_TRUE(r.gate().ever_enforced());
  });
}

// ---- in the exchange

TEST(GateFailures, SumLostOnOneRankIsUndecidedThereAndReleasesAllNextStep) {
  World world({.ranks = 4});
  world.nccl().set_fate(3, 2, Fate::kSumLost);  // activation, step 1, step 2
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    EXPECT_TRUE(r.step().applies());
    const Step s = r.step();
    if (r.rank() == 3) {
      EXPECT_EQ(s.end, STEPGATE_UNDECIDED);
      EXPECT_EQ(s.status, STEPGATE_UNDECIDED);
      EXPECT_EQ(s.decision.skip, 1);
      EXPECT_EQ(s.found_inf, 1.0f);
      EXPECT_NE(s.error.find("made to fail"), std::string::npos) << s.error;
      EXPECT_EQ(r.gate().counters().plugin_errors[static_cast<std::size_t>(metrics::Stage::kExchange)], 1u);
    } else {
      EXPECT_TRUE(s.applies()) << "the others were served";
    }
    EXPECT_EQ(r.step().status, STEPGATE_RELEASED);
    using metrics::ReleaseReason;
    EXPECT_EQ(r.gate().counters().enforce_released[static_cast<std::size_t>(ReleaseReason::kUndecided)], 1u);
  });
}

TEST(GateFailures, ExchangeFailingOnAllIsUndecidedEverywhere) {
  World world({.ranks = 3});
  for (int r = 0; r < 3; ++r) world.nccl().set_fate(r, 1, Fate::kSumLost);
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    const Step s = r.step();
    EXPECT_EQ(s.status, STEPGATE_UNDECIDED);
    EXPECT_EQ(s.found_inf, 1.0f);
    EXPECT_EQ(r.step().status, STEPGATE_RELEASED);
  });
}

TEST(GateFailures, AbsentRankReleasesTheOthersAtOnce) {
  World world({.ranks = 4});
  world.nccl().set_fate(0, 1, Fate::kAbsent);
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    const Step s = r.step();
    EXPECT_EQ(s.status, r.rank() == 0 ? STEPGATE_UNDECIDED : STEPGATE_RELEASED) << s.error;
    EXPECT_EQ(s.found_inf, 1.0f);
    if (r.rank() == 0) return;
    using metrics::ReleaseReason;
    EXPECT_EQ(r.gate().counters().enforce_released[static_cast<std::size_t>(ReleaseReason::kContributors)],
              1u);
  });
}

// Both halves of one rank's step fail: the last decision must not be taken for this step's.
TEST(GateFailures, FailedSummaryAndFailedExchangeWithdrawTheLastDecision) {
  World world({.ranks = 2});
  world.nccl().set_fate(1, 2, Fate::kSumLost);
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    EXPECT_EQ(r.step().found_inf, 0.0f);
    if (r.rank() == 1) r.device().fail(FaultyDevice::kSummarize, 0);
    const Step s = r.step();
    EXPECT_EQ(s.found_inf, 1.0f);
    EXPECT_EQ(s.status, r.rank() == 1 ? STEPGATE_UNDECIDED : STEPGATE_RELEASED);
  });
}

TEST(GateFailures, DecideFailingOnOneRank) {
  World world({.ranks = 3});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    if (r.rank() == 2) r.device().fail(FaultyDevice::kFinishStep, 0);
    const Step s = r.step();
    EXPECT_EQ(s.status, r.rank() == 2 ? STEPGATE_UNDECIDED : STEPGATE_OK);
    EXPECT_EQ(s.found_inf, r.rank() == 2 ? 1.0f : 0.0f);
    EXPECT_EQ(r.step().status, STEPGATE_RELEASED);
  });
}

TEST(GateFailures, ApplyFailingOnOneRankReleasesAllNextStep) {
  for (const auto call : {FaultyDevice::kApply, FaultyDevice::kMarkApplied}) {
    WorldOptions o{.ranks = 2};
    o.policy.unscale = UnscaleMode::kApply;
    World world(o);
    world.run([&](Rank& r) {
      r.declare("shard", {&r.shard});
      ASSERT_EQ(r.activate(), STEPGATE_OK);
      EXPECT_TRUE(r.step().applies());
      if (r.rank() == 1) r.device().fail(call, 0);
      EXPECT_EQ(r.gate().apply(0, nullptr), r.rank() == 1 ? STEPGATE_FAILED : STEPGATE_OK);
      EXPECT_EQ(r.step().status, STEPGATE_RELEASED);
    });
  }
}

TEST(GateFailures, RangeThatTheDeviceNeverHeardOfReleasesAllUntilTheNextActivation) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    if (r.rank() == 1) r.device().fail(FaultyDevice::kCopyIn, 0);
    r.declare("shard", {&r.shard});
    r.device().heal();
    if (r.rank() == 1) r.shard[0] = NAN;
    EXPECT_EQ(r.step().status, STEPGATE_RELEASED) << "the NaN of that range would be applied";
    // Activation tells the device everything anew.
    ASSERT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_OK) << gate::last_error();
    const Step step = r.step();
    EXPECT_EQ(step.status, STEPGATE_OK);
    EXPECT_EQ(step.decision.reason, STEPGATE_REASON_NAN);
  });
}

TEST(GateFailures, RankThatCannotPutItsBallotDownRefusesAllTogether) {
  World world({.ranks = 3});
  world.run([](Rank& r) {
    ASSERT_EQ(r.gate().add_group(r.comm()), STEPGATE_OK);
    if (r.rank() == 1) r.device().fail(FaultyDevice::kCopyIn, 0);
    EXPECT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_REFUSED) << gate::last_error();
    EXPECT_FALSE(r.gate().enforcing());
    r.device().heal();
    EXPECT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_OK) << gate::last_error();
  });
}

// Rank 1 comes only after the others' deadline has passed. The issued call stays, so a gate whose call
// has not come back issues no other.
TEST(GateFailures, ActivationWithoutAnAnswerEndsAtItsDeadline) {
  // Never destroyed: the thread of the call that stayed may still be on its way out of it.
  static World* const world = new World({.ranks = 2, .activation_seconds = 0.2});
  std::atomic<bool> gave_up{false};
  world->run([&](Rank& r) {
    ASSERT_EQ(r.gate().add_group(r.comm()), STEPGATE_OK);
    if (r.rank() == 1) {
      while (!gave_up) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      r.gate().enforce_begin(nullptr);  // answers the call that stayed
      return;
    }
    EXPECT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_TIMEOUT);
    EXPECT_NE(std::string(gate::last_error()).find("stays on the communicator"), std::string::npos);
    EXPECT_FALSE(r.gate().enforcing());
    EXPECT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_FAILED);
    EXPECT_NE(std::string(gate::last_error()).find("nothing more is issued"), std::string::npos);
    EXPECT_EQ(r.nccl().exchanges(0), 1);
    gave_up = true;
  });
}

TEST(GateFailures, LeavingWhileAnotherRankStepsIsToldToBoth) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    if (r.rank() == 0) {
      EXPECT_EQ(r.gate().enforce_end(nullptr), STEPGATE_FAILED);
      EXPECT_FALSE(r.gate().enforcing());
    } else {
      EXPECT_EQ(r.step().status, STEPGATE_RELEASED);
    }
  });
}

}  // namespace
}  // namespace stepgate::test

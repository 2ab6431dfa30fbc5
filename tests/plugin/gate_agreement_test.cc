// Ranks that do not hold the same: found at the activation, or in a step as divergence.
#include "tests/plugin/fake_world.h"

namespace stepgate::test {
namespace {

constexpr int kOdd = 2;

Step diverging_step(Rank& r, DivergencePolicy policy, int nth) {
  const Step s = r.step();
  const bool veto = policy != DivergencePolicy::kReport;
  EXPECT_EQ(s.decision.diverged, 1);
  EXPECT_EQ(s.decision.odd_rank, kOdd);
  EXPECT_EQ(s.decision.skip, veto) << s.error;
  if (nth < 3) {
    EXPECT_EQ(s.status, policy == DivergencePolicy::kError ? STEPGATE_DIVERGED : STEPGATE_OK) << s.error;
  }
  if (policy == DivergencePolicy::kError && nth < 3) {
    EXPECT_NE(s.error.find("odd rank 2"), std::string::npos) << s.error;
  }
  return s;
}

void diverge(DivergencePolicy policy) {
  WorldOptions o{.ranks = 4};
  o.policy.divergence = policy;
  World world(o);
  world.run([&](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    const Step first = r.step();
    EXPECT_EQ(first.decision.diverged, 0);
    EXPECT_EQ(first.decision.odd_rank, -1);
    if (r.rank() == kOdd) {
      ASSERT_EQ(r.gate().set_scale(128), STEPGATE_OK);
    }
    diverging_step(r, policy, 1);
    diverging_step(r, policy, 2);
    std::vector<StepRecord> records(8);
    std::uint64_t lost = 0;
    ASSERT_EQ(r.gate().read_steps(0, records.data(), 8, &lost), 3u);
    EXPECT_EQ(records[1].decision.odd_rank, kOdd);
    const Step third = r.step();
    EXPECT_EQ(third.status, STEPGATE_RELEASED) << "after three in a row";
    EXPECT_EQ(third.decision.skip, 1);
    using metrics::ReleaseReason;
    EXPECT_EQ(r.gate().counters().enforce_released[static_cast<std::size_t>(ReleaseReason::kDivergence)], 1u);
  });
}

TEST(GateDivergence, Report) {
  diverge(DivergencePolicy::kReport);
}
TEST(GateDivergence, Veto) {
  diverge(DivergencePolicy::kVeto);
}
TEST(GateDivergence, Error) {
  diverge(DivergencePolicy::kError);
}

// Of two ranks neither is the majority, and of four that fall into halves none is odd.
TEST(GateDivergence, WhichRankIsOddCannotAlwaysBeTold) {
  for (const int ranks : {2, 4, 5}) {
    SCOPED_TRACE(ranks);
    World world({.ranks = ranks});
    world.run([&](Rank& r) {
      r.declare("shard", {&r.shard});
      ASSERT_EQ(r.activate(), STEPGATE_OK);
      ASSERT_EQ(r.gate().set_scale(r.rank() < (ranks == 2 ? 1 : 2) ? 128 : 256), STEPGATE_OK);
      const Step s = r.step();
      EXPECT_EQ(s.decision.diverged, 1);
      EXPECT_EQ(s.decision.odd_rank, -1);
      EXPECT_EQ(s.decision.reason, STEPGATE_REASON_VETO);
    });
  }
}

// A scale that one rank alone was given makes it odd, whichever it is; itself knows it too.
TEST(GateDivergence, EveryRankIsNamedWhereItIsTheOddOne) {
  for (int odd = 0; odd < 5; ++odd) {
    SCOPED_TRACE(odd);
    World world({.ranks = 5});
    world.run([&](Rank& r) {
      r.declare("shard", {&r.shard});
      ASSERT_EQ(r.activate(), STEPGATE_OK);
      if (r.rank() == odd) {
        ASSERT_EQ(r.gate().set_scale(128), STEPGATE_OK);
      }
      EXPECT_EQ(r.step().decision.odd_rank, odd);
    });
  }
}

TEST(GateDivergence, ShortOfThreeInARowNobodyIsReleased) {
  World world({.ranks = 4});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    if (r.rank() == kOdd) {
      ASSERT_EQ(r.gate().set_scale(128), STEPGATE_OK);
    }
    EXPECT_EQ(r.step().decision.diverged, 1);
    if (r.rank() == kOdd) {
      ASSERT_EQ(r.gate().set_scale(65536), STEPGATE_OK);
    }
    EXPECT_EQ(r.step().decision.diverged, 1) << "the scale is the same again, the last decisions were not";
    const Step s = r.step();
    EXPECT_EQ(s.decision.diverged, 0);
    EXPECT_TRUE(s.applies());
  });
}

// ---- activation

TEST(GateActivation, RefusedOnAllRanksWithTheSameReason) {
  struct {
    const char* what;
    const char* words;
    std::function<void(Rank&)> spoil;
    metrics::RefuseReason reason;
  } const cases[] = {
      {"scaler state", "scaler states", [](Rank& r) { ASSERT_EQ(r.gate().set_scale(4), STEPGATE_OK); },
       metrics::RefuseReason::kState},
      {"generation", "generations", [](Rank& r) { ASSERT_EQ(r.gate().reset(7), STEPGATE_OK); },
       metrics::RefuseReason::kGeneration},
      {"groups", "groups",
       [](Rank& r) { ASSERT_EQ(r.gate().add_group(r.nccl().comm(0)), STEPGATE_OK) << gate::last_error(); },
       metrics::RefuseReason::kGroups},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    World world({.ranks = 3});
    world.run([&](Rank& r) {
      r.declare("shard", {&r.shard});
      ASSERT_EQ(r.gate().add_group(r.comm()), STEPGATE_OK);
      if (r.rank() == 1) c.spoil(r);
      EXPECT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_REFUSED);
      EXPECT_NE(std::string(gate::last_error()).find(c.words), std::string::npos) << gate::last_error();
      EXPECT_FALSE(r.gate().enforcing());
      EXPECT_EQ(r.gate().step_begin(nullptr), STEPGATE_INACTIVE);
      EXPECT_EQ(r.gate().counters().enforce_refused[static_cast<std::size_t>(c.reason)], 1u);
    });
  }
}

TEST(GateActivation, NoSpanningGroupIsSaid) {
  World world({.ranks = 1});
  world.run([](Rank& r) {
    EXPECT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_FAILED);
    EXPECT_NE(std::string(gate::last_error()).find("stepgate_add_group"), std::string::npos);
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    EXPECT_EQ(r.gate().add_group(r.comm()), STEPGATE_INVALID) << "twice";
    EXPECT_EQ(r.gate().add_group(nullptr), STEPGATE_INVALID) << "no hook saw it";
    r.gate().comm_retired(r.comm());
    EXPECT_EQ(r.step().end, STEPGATE_UNDECIDED) << "its communicator is gone";
    EXPECT_EQ(r.gate().remove_group(r.comm()), STEPGATE_INVALID);
  });
}

TEST(GateActivation, ObservingRankRefusesForAll) {
  World world({.ranks = 2, .mode = gate::Mode::kObserve});
  world.run([](Rank& r) {
    EXPECT_EQ(r.activate(), STEPGATE_REFUSED);
    EXPECT_NE(std::string(gate::last_error()).find("STEPGATE_MODE is not enforce there"), std::string::npos);
  });
}

}  // namespace
}  // namespace stepgate::test

// One to eight ranks through release, loss of the decision and divergence: whatever happens, no two
// ranks hold different decisions for a step.
#include "tests/collectives/core/cluster.h"

namespace stepgate::test {
namespace {

class Lifecycle : public testing::TestWithParam<std::uint32_t> {
 protected:
  Cluster cluster(ScalerRule rule = ScalerRule::kStepgate) {
    return Cluster(default_params(rule), world(), random_);
  }
  std::uint32_t world() const { return GetParam(); }
  std::vector<Mishap> calm() const { return std::vector<Mishap>(world()); }
  std::size_t last() const { return world() - 1; }

  std::mt19937_64 random_ = seeded("lifecycle");
};

std::string name_of(const testing::TestParamInfo<std::uint32_t>& info) {
  return "Ranks" + std::to_string(info.param);
}
INSTANTIATE_TEST_SUITE_P(Worlds, Lifecycle, testing::Range(1u, 9u), name_of);

// What one rank alone cannot do: miss another, diverge from another.
class SeveralRanks : public Lifecycle {};
INSTANTIATE_TEST_SUITE_P(Worlds, SeveralRanks, testing::Range(2u, 9u), name_of);

void expect_same(const Decision& a, const Decision& b) {
  EXPECT_EQ(a.skip, b.skip);
  EXPECT_EQ(a.reason, b.reason);
  EXPECT_EQ(a.released, b.released);
  EXPECT_EQ(a.overflow, b.overflow);
  EXPECT_EQ(a.offender, b.offender);
  EXPECT_EQ(a.diverged, b.diverged);
  EXPECT_EQ(a.odd_rank, b.odd_rank);
  EXPECT_EQ(bits(a.norm), bits(b.norm));
  EXPECT_EQ(bits(a.clip), bits(b.clip));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(a.found_inf), std::bit_cast<std::uint32_t>(b.found_inf));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(a.multiplier), std::bit_cast<std::uint32_t>(b.multiplier));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(a.grad_scale), std::bit_cast<std::uint32_t>(b.grad_scale));
}

// The promise itself. A rank that got no decision shows a skip and claims none.
void expect_agreement(Cluster& c) {
  const GateBlock* decided = nullptr;
  for (const GateBlock& g : c.ranks()) {
    const SetBlock& s = g.sets[0];
    EXPECT_TRUE(s.outputs.found_inf == 0.0f || s.outputs.found_inf == 1.0f);
    if (s.decided_step != g.step) {
      EXPECT_EQ(s.outputs.found_inf, 1.0f) << "rank " << g.rank << " has no decision and must skip";
      EXPECT_EQ(s.decision.skip, 1u);
      continue;
    }
    EXPECT_EQ(s.outputs.found_inf == 1.0f, s.decision.skip == 1u);
    if (decided != nullptr) expect_same(decided->sets[0].decision, s.decision);
    decided = &g;
  }
}

TEST_P(Lifecycle, AFailureBeforeTheExchangeReleasesEverybodyInThatStep) {
  Cluster c = cluster();
  c.step(calm());
  auto mishaps = calm();
  mishaps[last()].fails_before = true;
  c.step(mishaps);
  expect_agreement(c);
  for (const GateBlock& g : c.ranks()) {
    EXPECT_EQ(g.released, 1u);
    EXPECT_EQ(g.sets[0].outputs.found_inf, 1.0f);
    EXPECT_EQ(g.scaler.iteration, 1) << "frozen";
    EXPECT_EQ(g.last_decided, 1u);
  }
}

TEST_P(Lifecycle, ACutOffRankReleasesEverybodyAtTheNextExchange) {
  Cluster c = cluster();
  c.step(calm());
  auto mishaps = calm();
  mishaps[0].cut_off = true;
  c.step(mishaps);
  expect_agreement(c);
  EXPECT_EQ(c.rank(0).last_decided, 1u);
  for (std::size_t r = 1; r < world(); ++r)
    EXPECT_EQ(c.rank(r).last_decided, 2u) << "served: it may have applied";
  c.step(calm());
  expect_agreement(c);
  for (const GateBlock& g : c.ranks()) {
    EXPECT_EQ(g.released, 1u);
    EXPECT_EQ(g.last_confirmed, g.rank == 0 ? 0u : 1u) << "step 2 is never confirmed";
  }
}

TEST_P(SeveralRanks, AMissingRankReleasesTheOthers) {
  Cluster c = cluster();
  auto mishaps = calm();
  mishaps[last()].absent = true;
  c.step(mishaps);
  for (std::size_t r = 0; r < last(); ++r) EXPECT_EQ(c.rank(r).released, 1u);
  expect_agreement(c);
}

TEST_P(SeveralRanks, ADivergingScaleIsVetoedNamedAndReleasedAfterThree) {
  Cluster c = cluster();
  c.step(calm());
  c.rank(last()).scaler.growth_tracker += 1;
  for (int step = 1; step <= 3; ++step) {
    c.step(calm());
    expect_agreement(c);
    for (const GateBlock& g : c.ranks()) {
      const Decision& d = g.sets[0].decision;
      EXPECT_EQ(d.diverged, 1u);
      EXPECT_EQ(d.reason, Reason::kVeto);
      EXPECT_EQ(d.odd_rank, world() < 3 ? -1 : static_cast<std::int32_t>(last()));
      EXPECT_EQ(g.released, step == 3 ? 1u : 0u) << "step " << step;
    }
  }
}

TEST_P(SeveralRanks, ADivergenceThatHealsIsForgotten) {
  Cluster c = cluster();
  for (int round = 0; round < 4; ++round) {
    c.rank(0).scaler.growth_tracker += 1;
    c.step(calm());
    c.step(calm());
    c.rank(0).scaler.growth_tracker = c.rank(1).scaler.growth_tracker;
    c.step(calm());
    EXPECT_EQ(c.rank(0).sets[0].decision.diverged, 0u);
    EXPECT_LE(c.rank(0).diverged_in_row, 2u);
    EXPECT_EQ(c.rank(0).released, 0u);
  }
}

TEST_P(SeveralRanks, ARankThatDecidedOtherwiseIsSeenInTheNextStep) {
  Cluster c = cluster();
  c.step(calm());
  Decision other = c.rank(0).sets[0].decision;
  other.norm = std::nextafter(other.norm, kInf);
  block_detail::remember_digests(c.rank(0), other);
  c.step(calm());
  expect_agreement(c);
  EXPECT_EQ(c.rank(0).sets[0].decision.diverged, 1u);
  EXPECT_EQ(c.rank(0).sets[0].decision.odd_rank, world() < 3 ? -1 : 0);
  c.step(calm());
  EXPECT_EQ(c.rank(0).sets[0].decision.diverged, 0u);
}

TEST(TwoRanks, TwoDivergingSetsOfOneStepCountOnce) {
  GateBlock g = new_block(default_params(ScalerRule::kStepgate), 0, 2);
  GateBlock h = new_block(default_params(ScalerRule::kStepgate), 1, 2);
  h.scaler.growth_tracker = 1;
  begin_step(g);
  begin_step(h);
  for (std::uint32_t set = 0; set < kMaxSets; ++set) {
    Fields a, b;
    summarize_set(g, set, nullptr, 0, a.data());
    summarize_set(h, set, nullptr, 0, b.data());
    const Fields sum = sum_of({a, b});
    decide_set(g, set, sum.data());
    decide_set(h, set, sum.data());
    EXPECT_EQ(g.diverged_in_row, 1u);
    EXPECT_EQ(g.released, 0u);
  }
}

std::vector<Mishap> random_step(std::mt19937_64& random, std::uint32_t world, double trouble) {
  std::vector<Mishap> mishaps(world);
  for (Mishap& m : mishaps) {
    m.gradient = {std::ldexp(1.0, static_cast<int>(below(random, 40))),
                  static_cast<double>(below(random, 1000))};
    if (chance(random, 0.1)) m.gradient.push_back(kInf);
    if (chance(random, 0.05)) m.gradient.push_back(NAN);
    m.veto = chance(random, 0.03);
    m.fails_before = chance(random, trouble);
    m.cut_off = chance(random, trouble);
    m.absent = chance(random, trouble / 2);
  }
  return mishaps;
}

ScalerRule random_rule(std::mt19937_64& random) {
  return static_cast<ScalerRule>(below(random, kScalerRuleCount));
}

TEST_P(Lifecycle, RandomInjectionsLeaveEveryRankWithTheSameState) {
  Cluster c = cluster(random_rule(random_));
  for (int step = 0; step < 300; ++step) {
    c.step(random_step(random_, world(), 0));
    expect_agreement(c);
    for (const GateBlock& g : c.ranks()) {
      ASSERT_EQ(bits(g.scaler.scale), bits(c.rank(0).scaler.scale));
      ASSERT_EQ(g.scaler.growth_tracker, c.rank(0).scaler.growth_tracker);
      ASSERT_EQ(g.sets[0].decided_step, g.step);
      ASSERT_EQ(g.released, 0u);
    }
  }
}

// Nobody applies in a step that somebody failed before, nor in any step after the next exchange.
TEST_P(Lifecycle, RandomFailuresNeverLeaveTwoDecisions) {
  for (int run = 0; run < 60; ++run) {
    Cluster c = cluster(random_rule(random_));
    bool over = false;  // an exchange has carried the bad news
    bool pending = false;
    for (int step = 0; step < 40; ++step) {
      const auto mishaps = random_step(random_, world(), 0.004);
      bool heard = pending;
      for (const Mishap& m : mishaps) {
        heard = heard || m.fails_before || m.absent;
        pending = pending || m.cut_off || m.absent;
      }
      c.step(mishaps);
      expect_agreement(c);
      over = over || heard;
      for (const GateBlock& g : c.ranks()) {
        if (over) {
          ASSERT_EQ(g.sets[0].outputs.found_inf, 1.0f) << "rank " << g.rank << ", step " << step;
        }
      }
    }
  }
}

}  // namespace
}  // namespace stepgate::test

// Several gates in one process (a GAN's two scalers), several sets of one gate (an optimizer each), and
// gradients that are not there: each decides of its own and of nothing else.
#include "tests/plugin/fake_world.h"

namespace stepgate::test {
namespace {

// A second gate of a rank, on its device and over its communicator.
std::unique_ptr<gate::Gate> second_gate(Rank& r, ScalerRule rule) {
  gate::GateOptions o;
  o.name = "1";
  o.rank = r.rank();
  o.world = r.nccl().ranks();
  o.params = default_params(rule);
  o.policy.world = static_cast<std::uint32_t>(o.world);
  o.configuration.mode = gate::Mode::kEnforce;
  o.configuration.log = gate::LogLevel::kOff;
  std::string error;
  auto g = gate::Gate::create(std::move(o), r.device(), FakeNccl::services(), &error);
  EXPECT_NE(g, nullptr) << error;
  EXPECT_EQ(g->add_group(r.comm()), STEPGATE_OK) << gate::last_error();
  return g;
}

std::uint32_t declare_in(gate::Gate& g, std::vector<float>& data, std::uint32_t set = 0) {
  gate::RangeSpec spec;
  spec.name = "weights";
  spec.segments = {{data.data(), data.size()}};
  spec.parameters = {"weight"};
  spec.set = set;
  std::uint32_t id = 0;
  EXPECT_EQ(g.declare_range(std::move(spec), &id), STEPGATE_OK) << gate::last_error();
  return id;
}

stepgate_decision step_of(gate::Gate& g) {
  stepgate_decision d{};
  EXPECT_EQ(g.step_begin(nullptr), STEPGATE_OK) << gate::last_error();
  EXPECT_EQ(g.step_end(0, nullptr), STEPGATE_OK) << gate::last_error();
  EXPECT_EQ(g.step_wait(0, &d), STEPGATE_OK) << gate::last_error();
  return d;
}

// The rank's own gate decides about its shard, the other one about `critic`.
void begin_both(Rank& r, gate::Gate& other, std::vector<float>& critic) {
  r.declare("generator", {&r.shard});
  declare_in(other, critic);
  EXPECT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
  EXPECT_EQ(other.enforce_begin(nullptr), STEPGATE_OK) << gate::last_error();
}

TEST(GateSeveral, EachGateHasItsScalerAndItsRanges) {
  World world({.ranks = 3});
  world.run([](Rank& r) {
    std::vector<float> critic(4, 2.0f);
    const auto other = second_gate(r, ScalerRule::kStatic);
    begin_both(r, *other, critic);
    if (r.rank() == 1) r.shard[0] = INFINITY;
    const stepgate_decision overflowed = step_of(r.gate()), good = step_of(*other);
    EXPECT_EQ(overflowed.reason, STEPGATE_REASON_INF);
    EXPECT_EQ(overflowed.next_scale, overflowed.scale / 2);
    EXPECT_EQ(good.skip, 0);
    EXPECT_EQ(good.next_scale, good.scale);
    EXPECT_EQ(good.norm, std::sqrt(3 * 4 * 4.0) / good.scale);
    r.shard[0] = 1;
    critic[1] = r.rank() == 2 ? NAN : 1.0f;
    EXPECT_EQ(step_of(*other).reason, STEPGATE_REASON_NAN) << "two of its steps to one of the other's";
    EXPECT_EQ(step_of(*other).reason, STEPGATE_REASON_NAN);
    EXPECT_EQ(step_of(r.gate()).skip, 0);
  });
}

// Both steps are open at once, as where two losses share one backward.
TEST(GateSeveral, StepsOfTwoGatesMayOverlap) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    std::vector<float> critic(4, 2.0f);
    const auto other = second_gate(r, ScalerRule::kTorch);
    begin_both(r, *other, critic);
    r.begin();
    ASSERT_EQ(other->step_begin(nullptr), STEPGATE_OK);
    if (r.rank() == 0) critic[0] = NAN;
    ASSERT_EQ(other->step_end(0, nullptr), STEPGATE_OK);
    EXPECT_TRUE(r.end().applies());
    stepgate_decision d{};
    ASSERT_EQ(other->step_wait(0, &d), STEPGATE_OK);
    EXPECT_EQ(d.reason, STEPGATE_REASON_NAN);
  });
}

TEST(GateSeveral, AReleaseOfOneGateLeavesTheOther) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    std::vector<float> critic(4, 2.0f);
    const auto other = second_gate(r, ScalerRule::kTorch);
    begin_both(r, *other, critic);
    if (r.rank() == 1) r.device().fail(FaultyDevice::kScan, 0);
    EXPECT_EQ(r.step().status, STEPGATE_RELEASED);
    r.device().heal();
    EXPECT_EQ(step_of(*other).skip, 0);
  });
}

// ---- sets

TEST(GateSeveralSets, EachCountsItsRangesAlone) {
  World world({.ranks = 1});
  Rank& r = world.rank(0);
  std::vector<std::vector<float>> memory(kMaxSets, std::vector<float>(2));
  for (std::uint32_t set = 0; set < kMaxSets; ++set) {
    declare_in(r.gate(), memory[set], set);
    memory[set] = {static_cast<float>(set + 1), set % 3 == 1 ? NAN : 0.0f};
  }
  ASSERT_EQ(r.activate(), STEPGATE_OK);
  r.begin();
  for (std::uint32_t set = 0; set < kMaxSets; ++set) {
    double fields[STEPGATE_SUMMARY_FIELDS];
    ASSERT_EQ(r.gate().summarize(set, nullptr, fields), STEPGATE_OK) << gate::last_error();
    ASSERT_EQ(r.gate().decide(set, nullptr), STEPGATE_OK) << gate::last_error();
  }
  ASSERT_EQ(r.gate().scaler_update(nullptr), STEPGATE_OK) << gate::last_error();
  for (std::uint32_t set = 0; set < kMaxSets; ++set) {
    SCOPED_TRACE(set);
    const Step s = r.wait(set);
    EXPECT_EQ(s.status, STEPGATE_OK) << s.error;
    EXPECT_EQ(s.decision.skip, set % 3 == 1);
    EXPECT_EQ(s.found_inf, set % 3 == 1 ? 1.0f : 0.0f);
    if (set % 3 != 1) {
      EXPECT_EQ(s.decision.norm, (set + 1) / 65536.0);
    }
    EXPECT_EQ(s.decision.next_scale, 32768) << "the scaler moves once, for all of them";
  }
}

TEST(GateSeveralSets, ASetThatIsLeftOutOfAStepIsUndecidedThere) {
  World world({.ranks = 1});
  Rank& r = world.rank(0);
  std::vector<float> a(2, 1.0f), b(2, 1.0f);
  declare_in(r.gate(), a, 0);
  declare_in(r.gate(), b, 1);
  ASSERT_EQ(r.activate(), STEPGATE_OK);
  EXPECT_TRUE(r.step().applies());
  const Step other = r.wait(1);
  EXPECT_EQ(other.status, STEPGATE_UNDECIDED);
  EXPECT_EQ(other.found_inf, 1.0f) << "nobody may apply what was not looked at";
  EXPECT_TRUE(r.step().applies()) << "and it releases nobody";
}

// The end moves the scale: a second one would be another step's.
TEST(GateSeveralSets, TheBuiltInEndIsForOneSetAndSaysSo) {
  World world({.ranks = 1});
  Rank& r = world.rank(0);
  std::vector<float> a(2, 1.0f), b(2, 1.0f);
  declare_in(r.gate(), a, 0);
  declare_in(r.gate(), b, 1);
  ASSERT_EQ(r.activate(), STEPGATE_OK);
  EXPECT_EQ(r.gate().step_end(0, nullptr), STEPGATE_INVALID);
  EXPECT_EQ(std::string(gate::last_error()).find("one set"), std::string::npos) << "none was begun";
  EXPECT_TRUE(r.step().applies());
  EXPECT_EQ(r.gate().step_end(1, nullptr), STEPGATE_INVALID);
  EXPECT_NE(std::string(gate::last_error()).find("it is for one set a step"), std::string::npos)
      << gate::last_error();
  EXPECT_EQ(r.nccl().exchanges(0), 2) << "activation and one step";
  // Another set may be summed and decided by the caller in the same step, ahead of the end.
  r.begin();
  double fields[STEPGATE_SUMMARY_FIELDS];
  ASSERT_EQ(r.gate().summarize(1, nullptr, fields), STEPGATE_OK) << gate::last_error();
  ASSERT_EQ(r.gate().decide(1, nullptr), STEPGATE_OK) << gate::last_error();
  EXPECT_TRUE(r.end(0).applies());
  EXPECT_TRUE(r.wait(1).applies());
}

// ---- absent gradients

// A rank whose batch used other experts has no gradient there; the others count theirs.
TEST(GateAbsent, OnSomeRanksOnly) {
  World world({.ranks = 3});
  world.run([](Rank& r) {
    const std::uint32_t id = r.declare("expert", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    r.shard = {r.rank() == 1 ? NAN : 1.0f, 0};  // what lies there on rank 1 is of another step
    ASSERT_EQ(r.gate().range_absent(id, r.rank() == 1), STEPGATE_OK);
    const Step s = r.step();
    EXPECT_TRUE(s.applies()) << s.error;
    EXPECT_EQ(s.decision.norm, std::sqrt(2.0) / 65536);
    ASSERT_EQ(r.gate().range_absent(id, false), STEPGATE_OK);
    EXPECT_EQ(r.step().decision.reason, STEPGATE_REASON_NAN);
  });
}

TEST(GateAbsent, OnAllRanksIsAStepOfNormZero) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    const std::uint32_t id = r.declare("expert", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    r.begin();
    ASSERT_EQ(r.gate().range_absent(id, true), STEPGATE_OK) << "from the open step on";
    const Step s = r.end();
    EXPECT_TRUE(s.applies()) << s.error;
    EXPECT_EQ(s.decision.norm, 0);
    EXPECT_EQ(r.gate().counters().ranges_missing, 0u);
  });
}

TEST(GateAbsent, AReductionOfItIsNotRead) {
  World world({.ranks = 2, .attribution = gate::Attribution::kOff});
  world.run([](Rank& r) {
    const std::uint32_t id = r.declare("expert", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    ASSERT_EQ(r.gate().range_absent(id, true), STEPGATE_OK);
    r.begin();
    r.shard[0] = NAN;
    r.all_reduce(r.shard);
    EXPECT_TRUE(r.end().applies());
  });
}

// ---- generations of ranges

// Buckets are rebuilt where others lay; what the old ones found is nobody's.
TEST(GateGenerations, RebuiltBucketsStartAnew) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    std::vector<float> memory(8, 1.0f);
    std::vector<std::uint32_t> ids;
    const auto declare_pieces = [&](std::size_t pieces) {
      ids.clear();
      for (std::size_t i = 0; i < pieces; ++i) {
        gate::RangeSpec spec;
        spec.name = "bucket" + std::to_string(i);
        spec.segments = {{memory.data() + i * 8 / pieces, 8 / pieces}};
        spec.parameters = {"all"};
        ids.push_back(r.declare(std::move(spec)));
      }
    };
    declare_pieces(2);
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    memory[7] = NAN;
    EXPECT_EQ(r.step().decision.reason, STEPGATE_REASON_NAN);
    ASSERT_EQ(r.gate().retire_all(), STEPGATE_OK);
    const Step none = r.step();
    EXPECT_TRUE(none.applies());
    EXPECT_EQ(none.decision.norm, 0) << "nothing is declared";
    memory[7] = 1;
    for (const std::size_t pieces : {4u, 1u, 8u}) {
      ASSERT_EQ(r.gate().retire_all(), STEPGATE_OK);
      declare_pieces(pieces);
      const Step s = r.step();
      EXPECT_TRUE(s.applies()) << s.error;
      EXPECT_EQ(s.decision.norm, std::sqrt(2 * 8.0) / s.decision.scale);
      EXPECT_EQ(s.decision.diverged, 0);
    }
    EXPECT_EQ(r.gate().retire_range(ids.back() + 1), STEPGATE_INVALID);
  });
}

}  // namespace
}  // namespace stepgate::test

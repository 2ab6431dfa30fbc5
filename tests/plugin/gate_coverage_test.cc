// Coverage: every declared result is judged by its final bytes, whatever the hooks saw of it.
#include "tests/plugin/fake_world.h"

namespace stepgate::test {
namespace {

struct Counted {
  std::uint64_t missing, rescanned, scanned, passed;
  bool operator==(const Counted&) const = default;
};
std::ostream& operator<<(std::ostream& o, const Counted& c) {
  return o << "missing " << c.missing << ", rescanned " << c.rescanned << ", scanned " << c.scanned
           << ", passed " << c.passed;
}

Counted counted(Rank& r) {
  const metrics::Counters c = r.gate().counters();
  return {c.ranges_missing, c.ranges_rescanned, c.reductions_scanned[0], c.reductions_passed[0]};
}

WorldOptions plain(int ranks) {
  WorldOptions o{.ranks = ranks};
  o.params = default_params(ScalerRule::kNone);  // scale 1: norms read as they stand
  return o;
}

void start(Rank& r) {
  ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
  r.begin();
}

TEST(GateCoverage, RangeThatNoHookSawIsScannedAtTheEnd) {
  World world(plain(1));
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    start(r);
    r.shard = {3, 4};
    EXPECT_EQ(r.end().decision.norm, 5);
    EXPECT_EQ(counted(r), (Counted{1, 0, 0, 0}));
  });
}

TEST(GateCoverage, ReducedRangeIsTakenFromTheHook) {
  World world(plain(2));
  world.run([](Rank& r) {
    std::vector<float> bucket = {3, 4};
    r.declare("bucket", {&bucket}, [&](gate::RangeSpec& s) { s.counted = r.rank() == 0; });
    start(r);
    r.all_reduce(bucket);
    bucket = {0, 0};  // the job's own business: the range was declared final at the reduction
    EXPECT_EQ(r.end().decision.norm, 10);
    EXPECT_EQ(counted(r), (Counted{0, 0, 1, 0}));
  });
}

TEST(GateCoverage, NewestReductionWins) {
  World world(plain(2));
  world.run([](Rank& r) {
    std::vector<float> bucket = {NAN, 4};
    r.declare("bucket", {&bucket}, [&](gate::RangeSpec& s) { s.counted = r.rank() == 0; });
    start(r);
    r.all_reduce(bucket);
    bucket = {1.5, 2};
    r.all_reduce(bucket);
    const Step s = r.end();
    EXPECT_TRUE(s.applies()) << "the first reduction's NaN is gone";
    EXPECT_EQ(s.decision.norm, 5);
    EXPECT_EQ(counted(r), (Counted{0, 0, 2, 0}));
  });
}

TEST(GateCoverage, NotFinalRangeIsReadAgain) {
  World world(plain(2));
  world.run([](Rank& r) {
    std::vector<float> bucket = {3, 4};
    r.declare("bucket", {&bucket}, [&](gate::RangeSpec& s) {
      s.is_final = false;
      s.counted = r.rank() == 0;
    });
    start(r);
    r.all_reduce(bucket);
    for (float& x : bucket) x /= 2;
    EXPECT_EQ(r.end().decision.norm, 5);
    EXPECT_EQ(counted(r), (Counted{0, 1, 1, 0}));
  });
}

TEST(GateCoverage, WrittenMemoryIsReadAgain) {
  World world(plain(2));
  world.run([](Rank& r) {
    std::vector<float> bucket = {3, 4}, other = {1, 1};
    r.declare("bucket", {&bucket}, [&](gate::RangeSpec& s) { s.counted = r.rank() == 0; });
    r.declare("other", {&other}, [&](gate::RangeSpec& s) { s.counted = false; });
    start(r);
    r.all_reduce(bucket);
    r.all_reduce(other);
    bucket = {6, 8};
    r.moved(bucket.data() + 1, 1);
    EXPECT_EQ(r.end().decision.norm, 10);
    EXPECT_EQ(counted(r), (Counted{0, 1, 2, 0})) << "and the other range is not";
  });
}

TEST(GateCoverage, ReductionOfAPartDoesNotCoverTheWhole) {
  World world(plain(2));
  world.run([](Rank& r) {
    std::vector<float> bucket = {3, 4};
    r.declare("bucket", {&bucket}, [&](gate::RangeSpec& s) { s.counted = r.rank() == 0; });
    start(r);
    r.all_reduce(ElementType::kFp32, bucket.data(), bucket.data(), 1);
    const Step s = r.end();
    EXPECT_EQ(s.decision.norm, std::sqrt(36.0 + 16.0));
    EXPECT_EQ(counted(r), (Counted{0, 1, 1, 0}));
  });
}

TEST(GateCoverage, OneReductionCoversSeveralRanges) {
  World world(plain(2));
  world.run([](Rank& r) {
    std::vector<float> flat = {1, 2, 9, 3};  // the third is padding
    for (const auto& [name, at, count] : {std::tuple{"a", 0, 2}, std::tuple{"b", 3, 1}}) {
      gate::RangeSpec spec;
      spec.name = name;
      spec.segments = {{flat.data() + at, static_cast<std::uint64_t>(count)}};
      spec.parameters = {"p"};
      spec.counted = r.rank() == 0;
      r.declare(spec);
    }
    start(r);
    r.all_reduce(flat);
    EXPECT_EQ(r.end().decision.norm, std::sqrt(4.0 + 16 + 36));
    EXPECT_EQ(counted(r), (Counted{0, 0, 1, 0}));
  });
}

TEST(GateCoverage, ReductionsOfOtherMemoryOrBetweenStepsPass) {
  World world(plain(2));
  world.run([](Rank& r) {
    std::vector<float> loss = {NAN};
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    r.all_reduce(r.shard);
    r.begin();
    r.all_reduce(loss);
    EXPECT_TRUE(r.end().applies());
    EXPECT_EQ(counted(r), (Counted{1, 0, 0, 2}));
  });
}

TEST(GateCoverage, PendingReductionIsReadOnceItIsLaunched) {
  World world(plain(1));
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    start(r);
    const Reduction op{OpKind::kAllReduce, ncclFloat32, ncclSum, 0,        r.shard.data(),
                       r.shard.data(),     2,           1,       r.comm(), nullptr};
    r.gate().before(op);
    r.gate().after(op, stepgate::Outcome::kPending);
    r.shard = {3, 4};  // the helper thread got to it
    EXPECT_EQ(r.end().decision.norm, 5);
    EXPECT_EQ(counted(r), (Counted{0, 0, 1, 0}));
  });
}

// A failed group may have launched part of it: nothing in there can be believed, on any rank.
TEST(GateCoverage, DroppedReductionVetoesOnAllRanks) {
  World world(plain(3));
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    start(r);
    const Reduction op{OpKind::kAllReduce, ncclFloat32, ncclSum, 0,        r.shard.data(),
                       r.shard.data(),     2,           3,       r.comm(), nullptr};
    r.gate().before(op);
    r.gate().after(op, r.rank() == 1 ? stepgate::Outcome::kDropped : stepgate::Outcome::kLaunched);
    const Step s = r.end();
    EXPECT_EQ(s.status, STEPGATE_OK) << s.error;
    EXPECT_EQ(s.decision.reason, STEPGATE_REASON_VETO);
    EXPECT_TRUE(r.step().applies()) << "it speaks of one step";
  });
}

TEST(GateCoverage, AbsentRangeCountsForNothing) {
  World world(plain(1));
  world.run([](Rank& r) {
    std::vector<float> gone = {NAN};
    r.shard = {3, 4};
    r.declare("shard", {&r.shard});
    const std::uint32_t id = r.declare("gone", {&gone});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    ASSERT_EQ(r.gate().range_absent(id, true), STEPGATE_OK);
    EXPECT_EQ(r.step().decision.norm, 5);
    EXPECT_EQ(counted(r), (Counted{1, 0, 0, 0}));
    ASSERT_EQ(r.gate().range_absent(id, false), STEPGATE_OK);
    EXPECT_EQ(r.step().decision.reason, STEPGATE_REASON_NAN);
    EXPECT_EQ(r.gate().range_absent(99, true), STEPGATE_INVALID);
  });
}

TEST(GateCoverage, FactorCountsForTheNorm) {
  World world(plain(1));
  world.run([](Rank& r) {
    r.shard = {30, 40};
    r.declare("shard", {&r.shard}, [](gate::RangeSpec& s) { s.factor = 0.1; });
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    EXPECT_NEAR(r.step().decision.norm, 5, 1e-12);
  });
}

TEST(GateCoverage, DuplicatesAreNotCountedForTheNormButTheirFlagsAre) {
  World world(plain(3));
  world.run([](Rank& r) {
    r.shard = {3, 4};
    r.declare("shard", {&r.shard}, [&](gate::RangeSpec& s) { s.counted = r.rank() == 0; });
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    EXPECT_EQ(r.step().decision.norm, 5);
    if (r.rank() == 2) r.shard[1] = INFINITY;
    EXPECT_EQ(r.step().decision.reason, STEPGATE_REASON_INF);
  });
}

TEST(GateCoverage, OverlappingDeclarationIsRefused) {
  World world(plain(1));
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    gate::RangeSpec twice;
    twice.name = "twice";
    twice.segments = {{r.shard.data() + 1, 1}};
    twice.parameters = {"p"};
    std::uint32_t id = 77;
    EXPECT_EQ(r.gate().declare_range(twice, &id), STEPGATE_INVALID);
    EXPECT_EQ(id, 77u);
    EXPECT_NE(std::string(gate::last_error()).find("'shard'"), std::string::npos) << gate::last_error();
    twice.result = false;
    EXPECT_EQ(r.gate().declare_range(twice, &id), STEPGATE_OK) << "an input may lie anywhere";
  });
}

TEST(GateCoverage, RetiredRangesAreForgotten) {
  World world(plain(1));
  world.run([](Rank& r) {
    std::vector<float> old = {NAN}, rebuilt = {3, 4};
    const std::uint32_t id = r.declare("bucket", {&old});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    EXPECT_EQ(r.step().decision.skip, 1);
    ASSERT_EQ(r.gate().retire_range(id), STEPGATE_OK);
    EXPECT_EQ(r.gate().retire_range(id), STEPGATE_INVALID);
    EXPECT_EQ(r.declare("bucket", {&rebuilt}), id);
    EXPECT_EQ(r.step().decision.norm, 5);
    ASSERT_EQ(r.gate().retire_all(), STEPGATE_OK);
    EXPECT_EQ(r.step().decision.norm, 0);
    EXPECT_EQ(r.gate().range_name(id), "bucket") << "names outlive their ranges";
  });
}

// The scale must be this step's: apply that overflows fp16 is found before it writes.
TEST(GateCoverage, ProductThatTheStoredTypeCannotHoldSkips) {
  WorldOptions o{.ranks = 1};
  o.params = default_params(ScalerRule::kTorch);
  o.params.initial_scale = 0.0001;
  o.policy.unscale = UnscaleMode::kApply;
  World world(o);
  world.run([](Rank& r) {
    std::vector<std::uint16_t> half = {0x5640};  // 100
    gate::RangeSpec spec;
    spec.name = "half";
    spec.segments = {{half.data(), 1}};
    spec.parameters = {"p"};
    spec.type = ElementType::kFp16;
    r.declare(spec);
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    EXPECT_EQ(r.step().decision.reason, STEPGATE_REASON_INF) << "100 / 0.0001 is no fp16";
    EXPECT_EQ(r.gate().apply(0, nullptr), STEPGATE_OK);
    EXPECT_EQ(half[0], 0x5640);
  });
}

}  // namespace
}  // namespace stepgate::test

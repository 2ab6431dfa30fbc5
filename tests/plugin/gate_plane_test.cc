// What a gate gives the plane: how far this rank has come, and every offender, once.
#include "tests/plugin/fake_world.h"

namespace stepgate::test {
namespace {

// Seen while the other rank has not come yet: that is when it matters.
TEST(GatePlane, ARankThatWaitsInTheExchangeHasReachedIt) {
  World world({.ranks = 2, .plane = true});
  std::atomic<bool> waited{false};
  world.run([&](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    EXPECT_EQ(r.gate().reached(), 0u);
    r.step();
    EXPECT_EQ(r.gate().reached(), 1u);
    r.begin();
    EXPECT_EQ(r.gate().reached(), 1u) << "a step that has begun is not yet at its exchange";
    if (r.rank() == 1) {
      while (world.rank(0).gate().reached() != 2) std::this_thread::yield();
      EXPECT_EQ(r.gate().reached(), 1u);
      waited = true;
    }
    r.end();
    EXPECT_EQ(r.gate().reached(), 2u);
  });
  EXPECT_TRUE(waited);
}

// More parameters than stepgate_offenders keeps.
TEST(GatePlane, EveryOffenderOfAStepIsHandedOutOnce) {
  constexpr std::size_t kMany = 3 * gate::kOffendersKept;
  World world({.ranks = 2, .plane = true});
  world.run([](Rank& r) {
    std::vector<float> whole(kMany, 1.0f);
    gate::RangeSpec spec;
    spec.name = "bucket";
    spec.type = ElementType::kFp32;
    spec.compute = ElementType::kFp16;
    spec.result = true;
    for (std::size_t i = 0; i < kMany; ++i) {
      spec.segments.push_back({&whole[i], 1});
      spec.parameters.push_back("p" + std::to_string(i));
    }
    r.declare(std::move(spec));
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    if (r.rank() == 1) std::fill(whole.begin(), whole.end(), NAN);
    r.begin();
    r.all_reduce(whole);
    EXPECT_EQ(r.end().decision.offender, 1);
    std::vector<stepgate_offender> found;
    std::uint64_t lost = 0;
    r.gate().take_offenders(&found, &lost);
    EXPECT_EQ(found.size(), r.rank() == 1 ? kMany : 0u);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].parameter, "p" + std::to_string(i));
    EXPECT_EQ(lost, 0u);
    found.clear();
    r.gate().take_offenders(&found, &lost);
    EXPECT_TRUE(found.empty());
  });
}

TEST(GatePlane, WithoutThePlaneNothingIsKeptForIt) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    r.shard[0] = NAN;
    r.begin();
    r.all_reduce(r.shard);
    r.end();
    std::vector<stepgate_offender> found;
    std::uint64_t lost = 0;
    r.gate().take_offenders(&found, &lost);
    EXPECT_TRUE(found.empty());
  });
}

}  // namespace
}  // namespace stepgate::test

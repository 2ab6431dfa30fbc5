// Unscale in the hook: the scan of a reduced gradient multiplies it, once a step, and nothing else does.
#include "plugin/core/last_error.h"
#include "tests/plugin/fake_world.h"

namespace stepgate::test {
namespace {

WorldOptions in_hook(int ranks) {
  WorldOptions o{.ranks = ranks};
  o.policy.unscale = UnscaleMode::kInHook;
  return o;
}

constexpr float kScale = 65536;

// Each rank enforces with its shard as the one range, of the given number.
void in_hook_ranks(World& world, const std::function<void(Rank&, std::uint32_t bucket)>& body) {
  world.run([&body](Rank& r) {
    const std::uint32_t bucket = r.declare("bucket", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    body(r, bucket);
  });
}

void reduce_shard(Rank& r, const std::vector<float>& gradient) {
  r.shard = gradient;
  r.all_reduce(r.shard);
}

TEST(InHook, TheHookUnscalesAndTheOptimizerOnlyClips) {
  WorldOptions o = in_hook(2);
  o.policy.max_norm = 2.5;
  World world(o);
  world.run([](Rank& r) {
    r.declare("bucket", {&r.shard}, [&r](gate::RangeSpec& s) { s.counted = r.rank() == 0; });
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    reduce_shard(r, {1.5f * kScale, 2 * kScale});
    EXPECT_EQ(r.shard, (std::vector<float>{3, 4})) << "as soon as the reduction is over";
    const Step s = r.end();
    ASSERT_TRUE(s.applies()) << s.error;
    EXPECT_EQ(r.shard, (std::vector<float>{3, 4})) << "once";
    EXPECT_EQ(s.decision.norm, 5);
    EXPECT_NEAR(s.decision.clip, 0.5, 1e-6);
    EXPECT_EQ(s.decision.multiplier, static_cast<float>(s.decision.clip));
    EXPECT_EQ(s.decision.grad_scale, static_cast<float>(1 / s.decision.clip));
    EXPECT_EQ(r.gate().apply(0, nullptr), STEPGATE_INVALID);
    EXPECT_NE(std::string(gate::last_error()).find("in_hook; allowed: apply"), std::string::npos);
  });
}

TEST(InHook, WhatNoHookSawIsUnscaledAtTheStepsEnd) {
  World world(in_hook(2));
  in_hook_ranks(world, [](Rank& r, std::uint32_t) {
    r.begin();
    r.shard = {3 * kScale, 4 * kScale};
    ASSERT_TRUE(r.end().applies());
    EXPECT_EQ(r.shard, (std::vector<float>{3, 4}));
  });
}

// The scale moves between steps; each step's own latched one is taken back.
TEST(InHook, EveryStepUsesTheScaleOfItsOwnBackward) {
  WorldOptions o = in_hook(2);
  o.params.interval = 1;
  World world(o);
  in_hook_ranks(world, [](Rank& r, std::uint32_t) {
    double scale = 0;
    for (int i = 0; i < 4; ++i) {
      r.begin();
      ASSERT_EQ(r.gate().scale(&scale), STEPGATE_OK);
      reduce_shard(r, {0.5f * static_cast<float>(scale), static_cast<float>(scale)});
      EXPECT_EQ(r.shard, (std::vector<float>{1, 2})) << "step " << i;
      ASSERT_TRUE(r.end().applies());
    }
    EXPECT_EQ(scale, 8.0 * kScale);
  });
}

TEST(InHook, ASkippedStepLeavesThemUnscaled) {
  World world(in_hook(2));
  in_hook_ranks(world, [](Rank& r, std::uint32_t) {
    r.begin();
    reduce_shard(r, {kScale, r.rank() == 0 ? INFINITY : 1.0f});
    const Step s = r.end();
    EXPECT_EQ(s.decision.skip, 1);
    EXPECT_EQ(s.decision.reason, STEPGATE_REASON_INF);
    EXPECT_EQ(s.decision.multiplier, 1);
    EXPECT_EQ(r.shard, (std::vector<float>{2, INFINITY}));
  });
}

// An accumulation over two reductions mixes what is unscaled with what is not.
TEST(InHook, ASecondReductionInTheStepIsSkippedByAll) {
  World world(in_hook(2));
  in_hook_ranks(world, [](Rank& r, std::uint32_t) {
    r.begin();
    reduce_shard(r, {kScale, kScale});
    if (r.rank() == 0) {
      r.moved(r.shard.data(), 1);
    }
    Step s = r.end();
    EXPECT_EQ(s.decision.skip, 1);
    EXPECT_EQ(s.decision.reason, STEPGATE_REASON_VETO);
    EXPECT_EQ(r.shard, (std::vector<float>{2, 2})) << "and nothing is multiplied twice";

    r.begin();
    reduce_shard(r, {kScale, kScale});
    r.all_reduce(r.shard);
    s = r.end();
    EXPECT_EQ(s.decision.reason, STEPGATE_REASON_VETO);
    EXPECT_EQ(r.shard, (std::vector<float>{4, 4}));

    r.begin();
    reduce_shard(r, {kScale, kScale});
    EXPECT_TRUE(r.end().applies()) << "the next step is as good as any";
    EXPECT_EQ(r.shard, (std::vector<float>{2, 2}));
  });
}

// The others have this rank's word already: it takes no decision, which releases all in the next step.
TEST(InHook, AWriteAfterTheSummaryIsRefusedTheDecision) {
  World world(in_hook(1));
  in_hook_ranks(world, [](Rank& r, std::uint32_t) {
    r.begin();
    reduce_shard(r, {kScale, kScale});
    double fields[STEPGATE_SUMMARY_FIELDS];
    ASSERT_EQ(r.gate().summarize(0, nullptr, fields), STEPGATE_OK);
    r.moved(r.shard.data(), 1);
    EXPECT_EQ(r.gate().decide(0, nullptr), STEPGATE_UNDECIDED);
    EXPECT_NE(std::string(gate::last_error()).find("was written again after its summary"), std::string::npos);
    EXPECT_EQ(r.gate().scaler_update(nullptr), STEPGATE_UNDECIDED);
    r.begin();
    reduce_shard(r, {kScale, kScale});
    EXPECT_EQ(r.end().status, STEPGATE_RELEASED);
  });
}

// Behind the decision the memory is the job's again.
TEST(InHook, AWriteAfterTheDecisionIsTheJobsOwn) {
  World world(in_hook(1));
  in_hook_ranks(world, [](Rank& r, std::uint32_t) {
    for (int i = 0; i < 2; ++i) {
      r.begin();
      reduce_shard(r, {kScale, kScale});
      double fields[STEPGATE_SUMMARY_FIELDS];
      ASSERT_EQ(r.gate().summarize(0, nullptr, fields), STEPGATE_OK);
      ASSERT_EQ(r.gate().decide(0, nullptr), STEPGATE_OK) << gate::last_error();
      r.moved(r.shard.data(), 1);
      EXPECT_EQ(r.gate().scaler_update(nullptr), STEPGATE_OK) << gate::last_error();
    }
  });
}

// The reduction that was launched late writes what has been read and multiplied meanwhile.
TEST(InHook, AReductionThatWasPendingMeanwhileIsSkippedByAll) {
  World world(in_hook(2));
  in_hook_ranks(world, [](Rank& r, std::uint32_t) {
    r.begin();
    r.shard = {kScale, kScale};
    const Reduction late = {OpKind::kAllReduce, ncclFloat32, ncclSum, 0,        r.shard.data(),
                            r.shard.data(),     2,           2,       r.comm(), nullptr};
    r.gate().before(late);
    r.gate().after(late, Outcome::kPending);
    r.all_reduce(r.shard);
    r.shard = {NAN, kScale};
    r.gate().settled(r.comm());
    EXPECT_EQ(r.end().decision.skip, 1);
  });
}

// Retired and declared again in one step: the new range has been multiplied as the old one.
TEST(InHook, ARangeDeclaredAgainInTheStepIsSkippedByAll) {
  World world(in_hook(2));
  in_hook_ranks(world, [](Rank& r, std::uint32_t id) {
    r.begin();
    reduce_shard(r, {kScale, kScale});
    if (r.rank() == 0) {
      ASSERT_EQ(r.gate().retire_range(id), STEPGATE_OK);
      r.declare("bucket", {&r.shard});
    }
    EXPECT_EQ(r.end().decision.reason, STEPGATE_REASON_VETO);
  });
}

// Attribution reads what goes in, which the job's own call must see as it was.
TEST(InHook, WhatIsSentIsNotTouched) {
  World world(in_hook(2));
  in_hook_ranks(world, [](Rank& r, std::uint32_t) {
    r.begin();
    const std::vector<float> send = {kScale, 2 * kScale};
    r.all_reduce(ElementType::kFp32, send.data(), r.shard.data(), 2);
    EXPECT_EQ(send, (std::vector<float>{kScale, 2 * kScale}));
    EXPECT_EQ(r.shard, (std::vector<float>{2, 4}));
    ASSERT_TRUE(r.end().applies());
  });
}

TEST(InHook, AnAbsentRangeStaysAsItIs) {
  World world(in_hook(2));
  in_hook_ranks(world, [](Rank& r, std::uint32_t id) {
    ASSERT_EQ(r.gate().range_absent(id, true), STEPGATE_OK);
    r.begin();
    reduce_shard(r, {kScale, kScale});
    ASSERT_TRUE(r.end().applies());
    EXPECT_EQ(r.shard, (std::vector<float>{2 * kScale, 2 * kScale}));
  });
}

// Whoever has been told of a release unscales by itself.
TEST(InHook, NothingIsMultipliedOnceTheReleaseIsKnown) {
  World world(in_hook(2));
  world.nccl().set_fate(1, 1, Fate::kSumLost);
  in_hook_ranks(world, [](Rank& r, std::uint32_t) {
    for (int i = 0; i < 2; ++i) {
      r.begin();
      reduce_shard(r, {kScale, kScale});
      EXPECT_EQ(r.shard, (std::vector<float>{2, 2}));
      const Step s = r.end();
      if (i == 1) {
        EXPECT_EQ(s.status, STEPGATE_RELEASED);
      }
    }
    if (r.gate().step_begin(nullptr) != STEPGATE_OK) return;
    reduce_shard(r, {kScale, kScale});
    r.end();
    EXPECT_EQ(r.shard, (std::vector<float>{2 * kScale, 2 * kScale}));
  });
}

TEST(InHook, OnlyFinalFp32ResultsAreTaken) {
  World world(in_hook(1));
  Rank& r = world.rank(0);
  const auto refused = [&r](const std::function<void(gate::RangeSpec&)>& change, const char* words) {
    gate::RangeSpec spec;
    spec.name = "bucket";
    spec.segments = {{r.shard.data(), 1}};
    spec.parameters = {"p"};
    change(spec);
    std::uint32_t id = 0;
    EXPECT_EQ(r.gate().declare_range(spec, &id), STEPGATE_INVALID);
    EXPECT_NE(std::string(gate::last_error()).find(words), std::string::npos) << gate::last_error();
  };
  refused([](gate::RangeSpec& s) { s.type = ElementType::kBf16; }, "type bf16");
  refused([](gate::RangeSpec& s) { s.type = ElementType::kFp64; }, "allowed with unscale = in_hook: fp32");
  refused([](gate::RangeSpec& s) { s.is_final = false; }, "STEPGATE_RANGE_NOT_FINAL");
  r.declare("input", {&r.input}, [](gate::RangeSpec& s) {
    s.result = false;
    s.is_final = false;
  });
}

}  // namespace
}  // namespace stepgate::test

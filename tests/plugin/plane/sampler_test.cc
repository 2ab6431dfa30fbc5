// What a rank reports, read from made-up gates.
#include "plugin/core/plane/sampler.h"

#include <gtest/gtest.h>

#include <cstring>

#include "collectives/core/decision.h"

namespace stepgate::plane {
namespace {

class FakeGate final : public RankSource {
 public:
  explicit FakeGate(std::string name) : name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  std::uint64_t reached() const override { return reached_; }
  bool enforcing() const override { return true; }
  std::uint64_t failures() const override { return 3; }
  std::size_t read_steps(std::uint64_t after, StepRecord* out, std::size_t capacity,
                         std::uint64_t* lost) override {
    *lost = 0;
    std::size_t n = 0;
    for (const StepRecord& r : steps_) {
      if (r.sequence > after && n < capacity) out[n++] = r;
    }
    return n;
  }
  void take_offenders(std::vector<stepgate_offender>* out, std::uint64_t* lost) override {
    out->insert(out->end(), offenders_.begin(), offenders_.end());
    offenders_.clear();
    *lost += 2;
  }

  void step(std::uint64_t number, Reason reason, double scale) {
    StepRecord r;
    r.sequence = steps_.size() + 1;
    r.step = number;
    r.decision.skip = reason == Reason::kNone ? 0 : 1;
    r.decision.reason = reason;
    r.scaler.scale = scale;
    r.local_inf = 1;
    r.local_nan = 2;
    steps_.push_back(r);
  }
  void offend(std::uint64_t number, const char* parameter) {
    stepgate_offender o{};
    o.step = number;
    o.has_nan = 1;
    o.nan = 4;
    std::strcpy(o.range, "bucket");
    std::strcpy(o.parameter, parameter);
    offenders_.push_back(o);
  }
  std::uint64_t reached_ = 0;

 private:
  const std::string name_;
  std::vector<StepRecord> steps_;
  std::vector<stepgate_offender> offenders_;
};

Figures sample(Sampler& sampler, std::vector<Offender>* fresh = nullptr) {
  std::vector<Offender> mine;
  std::uint64_t lost = 0;
  return sampler.sample(fresh != nullptr ? fresh : &mine, &lost);
}

TEST(Sampler, CountsEachRecordOnce) {
  Sampler sampler;
  FakeGate gate("0");
  sampler.add(&gate);
  gate.step(1, Reason::kNone, 100);
  gate.step(2, Reason::kInf, 50);
  sample(sampler);
  gate.step(3, Reason::kNan, 25);
  gate.step(4, Reason::kVeto, 25);
  gate.step(5, Reason::kNorm, 25);
  gate.reached_ = 6;
  const Figures f = sample(sampler);
  EXPECT_EQ(f.applied, 1u);
  EXPECT_EQ(f.skipped, (std::array<std::uint64_t, kSkipKinds>{1, 1, 1, 1}));
  EXPECT_EQ(f.last_step, 5u);
  EXPECT_EQ(f.reached, 6u);
  EXPECT_EQ(f.scale, 25);
  EXPECT_EQ(f.local_inf, 5u);
  EXPECT_EQ(f.local_nan, 10u);
  EXPECT_EQ(f.errors, 3u);
  EXPECT_EQ(f.enforcing, 1u);
}

TEST(Sampler, MoreRecordsThanOneReadAreAllCounted) {
  Sampler sampler;
  FakeGate gate("0");
  sampler.add(&gate);
  for (std::uint64_t i = 1; i <= 1000; ++i) gate.step(i, Reason::kNone, 1);
  EXPECT_EQ(sample(sampler).applied, 1000u);
}

// A graph's replays are seen by their records alone.
TEST(Sampler, ADecidedStepWasReached) {
  Sampler sampler;
  FakeGate gate("0");
  sampler.add(&gate);
  gate.step(9, Reason::kNone, 1);
  EXPECT_EQ(sample(sampler).reached, 9u);
}

TEST(Sampler, OffendersOfAllGatesGoOutOnceWithTheirGate) {
  Sampler sampler;
  FakeGate one("first"), two("second");
  sampler.add(&one);
  sampler.add(&two);
  one.offend(3, "a");
  two.offend(4, "b");
  std::vector<Offender> fresh;
  std::uint64_t lost = 0;
  sampler.sample(&fresh, &lost);
  ASSERT_EQ(fresh.size(), 2u);
  EXPECT_STREQ(fresh[0].gate, "first");
  EXPECT_STREQ(fresh[1].gate, "second");
  EXPECT_STREQ(fresh[1].parameter, "b");
  EXPECT_STREQ(fresh[1].range, "bucket");
  EXPECT_EQ(fresh[1].nan, 4u);
  EXPECT_EQ(lost, 4u);
  fresh.clear();
  sampler.sample(&fresh, &lost);
  EXPECT_TRUE(fresh.empty());
}

// At exit the gate goes before the plane says goodbye with the last figures.
TEST(Sampler, FiguresOfAGateThatEndedStayAndALaterOneGoesOn) {
  Sampler sampler;
  FakeGate one("0"), two("0");
  sampler.add(&one);
  one.step(1, Reason::kNone, 8);
  sampler.remove(&one);
  EXPECT_EQ(sample(sampler).applied, 1u);
  EXPECT_EQ(sample(sampler).enforcing, 0u);
  sampler.add(&two);
  two.step(1, Reason::kNone, 4);
  EXPECT_EQ(sample(sampler).applied, 2u);
  EXPECT_EQ(sample(sampler).scale, 4);
}

TEST(Sampler, WithoutAGateThereIsNothingToSay) {
  Sampler sampler;
  EXPECT_EQ(sample(sampler).reached, 0u);
  sampler.remove(nullptr);
}

}  // namespace
}  // namespace stepgate::plane

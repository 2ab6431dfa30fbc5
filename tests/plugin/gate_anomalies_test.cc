// Detectors over the records of gates that decide.
#include <cmath>
#include <functional>
#include <utility>

#include "metrics/detectors.h"
#include "tests/plugin/fake_world.h"

namespace stepgate::test {
namespace {

using Finding = std::pair<metrics::AnomalyKind, std::uint64_t>;

// What the detectors find in everything that the gate has recorded, overflows left out: kind and step.
std::vector<Finding> findings(gate::Gate& g) {
  std::vector<StepRecord> records(kRingRecords);
  std::uint64_t lost = 0;
  records.resize(g.read_steps(0, records.data(), records.size(), &lost));
  metrics::Detectors detectors({}, g.scaler_params());
  std::vector<metrics::Anomaly> all;
  for (const StepRecord& r : records) detectors.observe(r, all);
  std::vector<Finding> found;
  for (const metrics::Anomaly& a : all) {
    if (a.kind != metrics::AnomalyKind::kOverflow) found.emplace_back(a.kind, a.step);
  }
  return found;
}

// Steps whose gradients hold an inf on rank 1 where the scale is above the limit.
void train(Rank& r, double limit, int steps) {
  for (int i = 0; i < steps; ++i) {
    r.begin();
    double scale = 0;
    ASSERT_EQ(r.gate().scale(&scale), STEPGATE_OK);
    r.shard[0] = scale > limit && r.rank() == 1 ? INFINITY : static_cast<float>(scale);
    ASSERT_EQ(r.end().status, STEPGATE_OK);
  }
}

// Two ranks that grow their scale every ten steps.
void run_growing(const std::function<void(Rank&)>& body) {
  WorldOptions o{.ranks = 2};
  o.params.interval = 10;
  World world(o);
  world.run([&](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    body(r);
  });
}

TEST(GateAnomalies, AScaleAtItsLimitThrashesUntilItIsLeftAlone) {
  run_growing([](Rank& r) {
    train(r, 65536, 44);  // grows after steps 10, 21, 32, 43, and is back each time
    EXPECT_EQ(findings(r.gate()), std::vector<Finding>{});
    train(r, 65536, 22);  // and 54, 65
    EXPECT_EQ(findings(r.gate()), (std::vector<Finding>{{metrics::AnomalyKind::kScaleThrash, 55}}));
  });
}

TEST(GateAnomalies, AScaleThatHoldsForAWhileDoesNot) {
  run_growing([](Rank& r) {
    for (int i = 0; i < 8; ++i) {
      train(r, 0x1p40, 12);  // grows, and holds for two steps
      double scale = 0;
      ASSERT_EQ(r.gate().scale(&scale), STEPGATE_OK);
      train(r, scale / 2, 1);
    }
    EXPECT_EQ(findings(r.gate()), std::vector<Finding>{});
  });
}

TEST(GateAnomalies, ANormSpikesWhateverTheScale) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    for (int i = 0; i < 40; ++i) {
      if (i % 8 == 7) {
        ASSERT_EQ(r.gate().set_scale(i % 16 == 7 ? 0x1p20 : 4), STEPGATE_OK);
      }
      r.begin();
      double scale = 0;
      ASSERT_EQ(r.gate().scale(&scale), STEPGATE_OK);
      const double gradient = i == 30 ? 6 : 1;
      r.shard.assign(2, static_cast<float>(gradient * scale));
      ASSERT_TRUE(r.end().applies());
    }
    EXPECT_EQ(findings(r.gate()), (std::vector<Finding>{{metrics::AnomalyKind::kNormSpike, 31}}));
  });
}

}  // namespace
}  // namespace stepgate::test

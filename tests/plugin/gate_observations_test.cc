// What a job shows beside its gradients: stepgate_observe and stepgate_observe_update on host memory.
#include <cmath>
#include <future>
#include <thread>

#include "tests/collectives/device/scan_oracle.h"
#include "tests/plugin/fake_world.h"

namespace stepgate::test {
namespace {

using metrics::Observation;
using metrics::ObservedPhase;

std::vector<Observation> seen(gate::Gate& g) {
  std::vector<Observation> all;
  g.read_observations(&all);
  return all;
}

stepgate_status show(gate::Gate& g, const char* name, const std::vector<float>& x,
                     int phase = STEPGATE_PHASE_FORWARD) {
  return g.observations().observe(name, x.data(), x.size(), STEPGATE_FP32, phase, nullptr);
}

TEST(GateObservations, StatisticsOfEachNameAndPhase) {
  World world({.ranks = 1, .mode = gate::Mode::kObserve});
  gate::Gate& g = world.rank(0).gate();
  EXPECT_TRUE(seen(g).empty());
  ASSERT_EQ(show(g, "relu", {0, 3, -4, 1e-6f, INFINITY, NAN}), STEPGATE_OK) << gate::last_error();
  ASSERT_EQ(show(g, "relu", {2, 2}, STEPGATE_PHASE_GRAD_INPUT), STEPGATE_OK);
  const std::vector<Observation> all = seen(g);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "relu");
  EXPECT_EQ(all[0].phase, ObservedPhase::kForward);
  EXPECT_EQ(all[0].stats.elements, 6u);
  EXPECT_EQ(all[0].stats.abs_max, 4);
  EXPECT_EQ(all[0].stats.zeros, 1u);
  EXPECT_EQ(all[0].stats.subnormals, 1u) << "by fp16, where a scaler runs";
  EXPECT_EQ(all[0].inf, 1u);
  EXPECT_EQ(all[0].nan, 1u);
  EXPECT_EQ(all[1].phase, ObservedPhase::kGradInput);
  EXPECT_EQ(all[1].stats.sum_squares, 8);
}

// The figures of one look at bytes of this type.
GradStats look_at(gate::Gate& g, stepgate_type type, const std::vector<std::uint64_t>& elements) {
  const std::vector<unsigned char> bytes = pack(static_cast<ElementType>(type), elements);
  EXPECT_EQ(
      g.observations().observe("x", bytes.data(), elements.size(), type, STEPGATE_PHASE_FORWARD, nullptr),
      STEPGATE_OK)
      << gate::last_error();
  return seen(g).at(0).stats;
}

ScalerParams static_scale(double scale) {
  ScalerParams p = default_params(ScalerRule::kStatic);
  p.initial_scale = scale;
  return p;
}

TEST(GateObservations, WithoutALossScaleTheStoredTypeJudges) {
  constexpr std::uint64_t kSmall = 0x3586, kLarge = 0x4789;  // bf16: 1e-6, 7e4; two bytes more are fp32's
  for (const ScalerParams& p : {default_params(ScalerRule::kNone), static_scale(1)}) {
    World world({.ranks = 1, .params = p});
    for (const auto type : {STEPGATE_FP32, STEPGATE_BF16}) {
      const unsigned shift = type == STEPGATE_FP32 ? 16 : 0;
      const GradStats s = look_at(world.rank(0).gate(), type, {kSmall << shift, kLarge << shift});
      EXPECT_EQ(s.subnormals + s.overranges, 0u) << "type " << type << ", " << scaler_rule_name(p.rule);
    }
  }
  World world({.ranks = 1, .params = static_scale(128)});
  const GradStats s = look_at(world.rank(0).gate(), STEPGATE_BF16, {kSmall, kLarge});
  EXPECT_EQ(s.subnormals, 1u) << "by fp16";
  EXPECT_EQ(s.overranges, 1u);
}

TEST(GateObservations, ALoadedStatesRuleJudges) {
  World from({.ranks = 1, .params = default_params(ScalerRule::kNone)}), to({.ranks = 1});
  std::vector<unsigned char> blob(4096);
  std::size_t bytes = blob.size();
  ASSERT_EQ(from.rank(0).gate().state_save(blob.data(), &bytes), STEPGATE_OK) << gate::last_error();
  EXPECT_EQ(look_at(to.rank(0).gate(), STEPGATE_BF16, {0x3586}).subnormals, 1u);
  ASSERT_EQ(to.rank(0).gate().state_load(blob.data(), bytes), STEPGATE_OK) << gate::last_error();
  EXPECT_EQ(look_at(to.rank(0).gate(), STEPGATE_BF16, {0x3586}).subnormals, 0u);
}

// fp8 is narrower than any type that a backward pass runs in: it is judged by itself, whatever the rule.
TEST(GateObservations, Fp8) {
  World world({.ranks = 1});
  gate::Gate& g = world.rank(0).gate();
  GradStats s = look_at(g, STEPGATE_FP8_E4M3, {0x00, 0x80, 0x01, 0x07, 0x08, 0x38, 0x7e, 0x7f, 0xff});
  EXPECT_EQ(s.elements, 9u);
  EXPECT_EQ(s.zeros, 2u);
  EXPECT_EQ(s.subnormals, 2u) << "below 2^-6";
  EXPECT_EQ(s.overranges, 0u);
  EXPECT_EQ(s.inf, 0u) << "the type has none";
  EXPECT_EQ(s.nan, 2u);
  EXPECT_EQ(s.abs_max, 448);
  s = look_at(g, STEPGATE_FP8_E5M2, {0x00, 0x01, 0x83, 0x04, 0x3c, 0xbc, 0x7c, 0xfc, 0x7d, 0x40});
  EXPECT_EQ(s.zeros, 1u);
  EXPECT_EQ(s.subnormals, 2u) << "below 2^-14";
  EXPECT_EQ(s.inf, 2u);
  EXPECT_EQ(s.nan, 1u);
  EXPECT_EQ(s.abs_max, 2);
  EXPECT_NEAR(s.sum_squares, 6, 1e-6);
}

TEST(GateObservations, CountsGoOnAndFiguresAreTheNewest) {
  World world({.ranks = 1, .mode = gate::Mode::kObserve});
  gate::Gate& g = world.rank(0).gate();
  for (int i = 1; i <= 5; ++i) {
    ASSERT_EQ(show(g, "loss", {static_cast<float>(i), NAN}, STEPGATE_PHASE_LOSS), STEPGATE_OK);
  }
  const Observation o = seen(g).at(0);
  EXPECT_EQ(o.sequence, 5u);
  EXPECT_EQ(o.stats.abs_max, 5);
  EXPECT_EQ(o.nan, 5u) << "also of those that nobody read in between";
}

TEST(GateObservations, UpdatesThatTheTypeAbsorbs) {
  World world({.ranks = 1, .mode = gate::Mode::kObserve});
  gate::Gate& g = world.rank(0).gate();
  const std::vector<float> before{1, 1, 1, 1}, update{1, 1e-9f, 0, -0.0f};
  std::vector<float> after = before;
  for (std::size_t i = 0; i < after.size(); ++i) after[i] += update[i];
  ASSERT_EQ(g.observations().observe_update("w", before.data(), after.data(), update.data(), 4, STEPGATE_FP32,
                                            nullptr),
            STEPGATE_OK)
      << gate::last_error();
  const Observation o = seen(g).at(0);
  EXPECT_EQ(o.phase, ObservedPhase::kUpdate);
  EXPECT_EQ(o.stats.elements, 4u);
  EXPECT_EQ(o.updates, 2u);
  EXPECT_EQ(o.absorbed, 1u);
}

TEST(GateObservations, BadArgumentsAreNamedAndChangeNothing) {
  World world({.ranks = 1});
  gate::Gate& g = world.rank(0).gate();
  gate::Observations& o = g.observations();
  const float x[2] = {1, 2};
  const auto refused = [](stepgate_status status, const std::string& text) {
    EXPECT_EQ(status, STEPGATE_INVALID) << text;
    EXPECT_NE(std::string(gate::last_error()).find(text), std::string::npos) << gate::last_error();
    EXPECT_NE(std::string(gate::last_error()).find("allowed: "), std::string::npos) << gate::last_error();
  };
  refused(o.observe(nullptr, x, 2, STEPGATE_FP32, 0, nullptr), "name ''");
  refused(o.observe("\x01", x, 2, STEPGATE_FP32, 0, nullptr), "name");
  refused(o.observe("x", nullptr, 2, STEPGATE_FP32, 0, nullptr), "data is NULL");
  refused(o.observe("x", x, 2, 6, 0, nullptr), "type 6");
  refused(o.observe("x", x, 2, STEPGATE_FP32, 4, nullptr), "phase 4");
  refused(o.observe("x", x, 2, STEPGATE_FP32, -1, nullptr), "phase -1");
  refused(o.observe("x", x, (std::uint64_t{1} << 48) + 1, STEPGATE_FP32, 0, nullptr), "count");
  refused(o.observe("x", reinterpret_cast<const char*>(x) + 1, 1, STEPGATE_FP32, 0, nullptr), "not aligned");
  refused(o.observe_update("x", x, x, nullptr, 2, STEPGATE_FP32, nullptr), "update is NULL");
  refused(o.observe_update("x", x, nullptr, x, 2, STEPGATE_FP32, nullptr), "after is NULL");
  refused(o.observe_update("x", x, x, x, 2, STEPGATE_FP8_E4M3, nullptr), "type 4");
  EXPECT_TRUE(seen(g).empty());
  EXPECT_EQ(o.observe("empty", nullptr, 0, STEPGATE_FP32, 0, nullptr), STEPGATE_OK);
}

TEST(GateObservations, OneNameTooMany) {
  World world({.ranks = 1});
  gate::Gate& g = world.rank(0).gate();
  for (std::size_t i = 0; i < gate::kMaxObservations; ++i) {
    ASSERT_EQ(show(g, ("n" + std::to_string(i)).c_str(), {1}), STEPGATE_OK) << gate::last_error();
  }
  EXPECT_EQ(show(g, "more", {1}), STEPGATE_INVALID);
  EXPECT_NE(std::string(gate::last_error()).find("1024"), std::string::npos) << gate::last_error();
  EXPECT_EQ(show(g, "n7", {1}), STEPGATE_OK) << "a known name goes on";
}

TEST(GateObservations, TouchNoDecision) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    r.begin();
    ASSERT_EQ(show(r.gate(), "act", {NAN, INFINITY}), STEPGATE_OK);
    EXPECT_TRUE(r.end().applies());
    EXPECT_EQ(r.nccl().exchanges(r.rank()), 2) << "activation and the step's own";
  });
}

TEST(GateObservations, FailuresAreToldAndCounted) {
  World world({.ranks = 1});
  gate::Gate& g = world.rank(0).gate();
  ASSERT_EQ(show(g, "x", {1}), STEPGATE_OK);
  world.rank(0).device().fail(FaultyDevice::kScan, 0);
  EXPECT_EQ(show(g, "x", {2}), STEPGATE_FAILED);
  EXPECT_EQ(g.counters().plugin_errors[static_cast<std::size_t>(metrics::Stage::kScan)], 1u);
  EXPECT_EQ(seen(g).at(0).stats.abs_max, 1);
  ASSERT_EQ(show(g, "x", {3}), STEPGATE_OK);
  EXPECT_EQ(seen(g).at(0).stats.abs_max, 3);
}

// The publisher reads all gates in turn: one that is in the middle of a launch is left out this once.
TEST(GateObservations, TheReaderDoesNotWaitForALaunch) {
  World world({.ranks = 1});
  gate::Gate& g = world.rank(0).gate();
  ASSERT_EQ(show(g, "x", {1}), STEPGATE_OK);
  std::promise<void> launching, done;
  world.rank(0).device().at_scan([&] {
    launching.set_value();
    done.get_future().wait();
  });
  std::thread stuck([&] { EXPECT_EQ(show(g, "x", {2}), STEPGATE_OK); });
  launching.get_future().wait();
  auto reader = std::async(std::launch::async, [&] { return seen(g).size(); });
  const bool read = reader.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  done.set_value();
  stuck.join();
  ASSERT_TRUE(read) << "it waits for the launch";
  EXPECT_EQ(reader.get(), 0u);
  EXPECT_EQ(seen(g).at(0).stats.abs_max, 2);
}

TEST(GateObservations, TheReaderRunsBesideTheJob) {
  World world({.ranks = 1});
  gate::Gate& g = world.rank(0).gate();
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done.load()) {
      for (const Observation& o : seen(g)) {
        EXPECT_EQ(o.stats.sum_squares, o.stats.abs_max * o.stats.abs_max * 4) << "of one look";
      }
    }
  });
  for (int i = 1; i <= 500; ++i) {
    const auto x = static_cast<float>(i);
    EXPECT_EQ(show(g, "x", {x, x, x, x}), STEPGATE_OK);
  }
  done = true;
  reader.join();
  EXPECT_EQ(seen(g).at(0).sequence, 500u);
}

}  // namespace
}  // namespace stepgate::test

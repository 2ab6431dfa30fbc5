// The C API's structs turned into settings.
#include "plugin/core/gate_config.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace stepgate::gate {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

stepgate_gate_config zero_config() {
  stepgate_gate_config c{};
  c.size = sizeof c;
  return c;
}

GateOptions options(const stepgate_gate_config* c, const Configuration& environment = {}) {
  GateOptions o;
  std::string error;
  EXPECT_TRUE(gate_options(c, environment, &o, &error)) << error;
  return o;
}

std::string refused_config(const stepgate_gate_config& c) {
  GateOptions o;
  o.name = "untouched";
  std::string error;
  EXPECT_FALSE(gate_options(&c, Configuration{}, &o, &error));
  EXPECT_EQ(o.name, "untouched");
  return error;
}

TEST(GateConfig, ZeroFieldsMeanTheEnvironment) {
  Configuration environment;
  environment.scaler.rule = ScalerRule::kApex;
  environment.scaler.initial_scale = 64;
  environment.scaler.hysteresis = 5;
  environment.max_norm = 2;
  environment.skip_norm = 20;
  environment.unscale = UnscaleMode::kApply;
  environment.divergence = DivergencePolicy::kReport;
  environment.released = ReleasedPolicy::kUnguarded;
  environment.rank = 2;
  environment.world = 4;
  const stepgate_gate_config zero = zero_config();
  for (const stepgate_gate_config* c : {static_cast<const stepgate_gate_config*>(nullptr), &zero}) {
    const GateOptions o = options(c, environment);
    EXPECT_EQ(o.name, "0");
    EXPECT_EQ(o.rank, 2);
    EXPECT_EQ(o.world, 4);
    EXPECT_EQ(o.policy.world, 4u);
    EXPECT_EQ(o.params.rule, ScalerRule::kApex);
    EXPECT_EQ(o.params.initial_scale, 64);
    EXPECT_EQ(o.params.hysteresis, 5u);
    EXPECT_EQ(o.policy.max_norm, 2);
    EXPECT_EQ(o.policy.skip_norm, 20);
    EXPECT_EQ(o.policy.unscale, UnscaleMode::kApply);
    EXPECT_EQ(o.policy.divergence, DivergencePolicy::kReport);
    EXPECT_EQ(o.policy.released, ReleasedPolicy::kUnguarded);
  }
}

TEST(GateConfig, FieldsOverrideTheEnvironment) {
  stepgate_gate_config c = zero_config();
  c.name = "generator";
  c.world = 3;
  c.rank = 1;
  c.rule = "megatron";
  c.initial_scale = 32;
  c.growth = 4;
  c.backoff = 0.25;
  c.interval = 7;
  c.hysteresis = 3;
  c.minimum = 2;
  c.max_norm = 1;
  c.skip_norm = 10;
  c.unscale = "apply";
  c.divergence = "error";
  c.released = "unguarded";
  Configuration environment;
  environment.scaler.maximum = 4096;  // of another rule: left behind with it
  environment.rank = 5;
  environment.world = 9;
  const GateOptions o = options(&c, environment);
  EXPECT_EQ(o.name, "generator");
  EXPECT_EQ(o.rank, 1);
  EXPECT_EQ(o.world, 3);
  EXPECT_EQ(o.params.rule, ScalerRule::kMegatron);
  EXPECT_EQ(o.params.initial_scale, 32);
  EXPECT_EQ(o.params.growth, 4);
  EXPECT_EQ(o.params.backoff, 0.25);
  EXPECT_EQ(o.params.interval, 7u);
  EXPECT_EQ(o.params.hysteresis, 3u);
  EXPECT_EQ(o.params.minimum, 2);
  EXPECT_EQ(o.policy.max_norm, 1);
  EXPECT_EQ(o.policy.skip_norm, 10);
  EXPECT_EQ(o.policy.unscale, UnscaleMode::kApply);
  EXPECT_EQ(o.policy.divergence, DivergencePolicy::kError);
  EXPECT_EQ(o.policy.released, ReleasedPolicy::kUnguarded);
}

TEST(GateConfig, BadValuesNameTheField) {
  using Change = std::function<void(stepgate_gate_config&)>;
  const struct {
    const char* words;
    Change change;
  } cases[] = {
      {"world=-1", [](auto& c) { c.world = -1; }},
      {"world=2097153", [](auto& c) { c.world = (1 << 21) + 1; }},
      {"rank=2", [](auto& c) { c.world = c.rank = 2; }},
      {"rank=-1", [](auto& c) { c.world = 2, c.rank = -1; }},
      {"rule='amp'", [](auto& c) { c.rule = "amp"; }},
      {"unscale='in-hook'", [](auto& c) { c.unscale = "in-hook"; }},
      {"divergence=''", [](auto& c) { c.divergence = ""; }},
      {"released='apply'", [](auto& c) { c.released = "apply"; }},
      {"max_norm=-1", [](auto& c) { c.max_norm = -1; }},
      {"max_norm=nan", [](auto& c) { c.max_norm = kNan; }},
      {"skip_norm=inf", [](auto& c) { c.skip_norm = kInf; }},
      {"gate name", [](auto& c) { c.name = "tab\t"; }},
      {"initial scale=-5", [](auto& c) { c.initial_scale = -5; }},
      {"initial scale=nan", [](auto& c) { c.initial_scale = kNan; }},
      {"growth=1,", [](auto& c) { c.growth = 1; }},
      {"backoff=1,", [](auto& c) { c.backoff = 1; }},
      {"minimum=8, maximum=4", [](auto& c) { c.minimum = 8, c.maximum = 4; }},
      {"hysteresis=2 (STEPGATE_HYSTERESIS)", [](auto& c) { c.hysteresis = 2; }},
      {"maximum scale=4", [](auto& c) { c.rule = "torch", c.maximum = 4; }},
  };
  for (const auto& one : cases) {
    stepgate_gate_config c = zero_config();
    one.change(c);
    const std::string error = refused_config(c);
    EXPECT_NE(error.find(one.words), std::string::npos) << one.words << ": " << error;
  }
}

struct RangeCase {
  float memory[8] = {};
  stepgate_segment segments[2] = {{"w", memory, 4}, {nullptr, memory + 4, 4}};
  stepgate_range range{};

  RangeCase() {
    range.size = sizeof range;
    range.name = "bucket";
    range.segments = segments;
    range.segment_count = 2;
    range.compute_type = -1;
  }
};

TEST(RangeConfig, DefaultsAndNames) {
  const RangeCase c;
  RangeSpec s;
  std::string error;
  ASSERT_TRUE(range_spec(c.range, default_params(ScalerRule::kTorch), &s, &error)) << error;
  EXPECT_EQ(s.name, "bucket");
  EXPECT_EQ(s.parameters, (std::vector<std::string>{"w", "bucket[1]"}));
  EXPECT_EQ(s.type, ElementType::kFp32);
  EXPECT_EQ(s.compute, ElementType::kFp16);
  EXPECT_TRUE(s.result && s.is_final && s.counted);
  EXPECT_EQ(s.factor, 1);
  ASSERT_EQ(s.segments.size(), 2u);
  EXPECT_EQ(s.segments[1].data, c.memory + 4);
}

TEST(RangeConfig, WithoutALossScaleTheStoredTypeJudges) {
  ScalerParams off = default_params(ScalerRule::kStatic);
  off.initial_scale = 1;
  ScalerParams fixed = default_params(ScalerRule::kStatic);
  fixed.initial_scale = 128;
  RangeCase c;
  c.range.type = STEPGATE_BF16;
  RangeSpec s;
  std::string error;
  for (const ScalerParams& p : {default_params(ScalerRule::kNone), off}) {
    ASSERT_TRUE(range_spec(c.range, p, &s, &error)) << error;
    EXPECT_EQ(s.compute, ElementType::kBf16) << scaler_rule_name(p.rule);
  }
  ASSERT_TRUE(range_spec(c.range, fixed, &s, &error)) << error;
  EXPECT_EQ(s.compute, ElementType::kFp16);
}

TEST(RangeConfig, EveryFieldIsTakenOver) {
  RangeCase c;
  c.range.type = STEPGATE_FP64;
  c.range.compute_type = STEPGATE_BF16;
  c.range.role = STEPGATE_ROLE_INPUT;
  c.range.flags = STEPGATE_RANGE_NOT_FINAL | STEPGATE_RANGE_NOT_COUNTED;
  c.range.set = 7;
  c.range.factor = 0.25;
  RangeSpec s;
  std::string error;
  ASSERT_TRUE(range_spec(c.range, default_params(ScalerRule::kTorch), &s, &error)) << error;
  EXPECT_EQ(s.type, ElementType::kFp64);
  EXPECT_EQ(s.compute, ElementType::kBf16);
  EXPECT_FALSE(s.result || s.is_final || s.counted);
  EXPECT_EQ(s.set, 7u);
  EXPECT_EQ(s.factor, 0.25);
}

TEST(RangeConfig, BadValuesNameRangeAndField) {
  using Change = std::function<void(RangeCase&)>;
  const struct {
    const char* words;
    Change change;
  } cases[] = {
      {"range name", [](auto& c) { c.range.name = nullptr; }},
      {"range name", [](auto& c) { c.range.name = ""; }},
      {"'bucket': type=9", [](auto& c) { c.range.type = 9; }},
      {"'bucket': type=-1", [](auto& c) { c.range.type = -1; }},
      {"'bucket': type=4", [](auto& c) { c.range.type = STEPGATE_FP8_E4M3; }},
      {"'bucket': compute_type=5", [](auto& c) { c.range.compute_type = STEPGATE_FP8_E5M2; }},
      {"'bucket': compute_type=-2", [](auto& c) { c.range.compute_type = -2; }},
      {"'bucket': role=2", [](auto& c) { c.range.role = 2; }},
      {"'bucket': flags=4", [](auto& c) { c.range.flags = 4; }},
      {"'bucket': set=8", [](auto& c) { c.range.set = 8; }},
      {"'bucket': factor=nan", [](auto& c) { c.range.factor = kNan; }},
      {"'bucket': segments=NULL", [](auto& c) { c.range.segments = nullptr; }},
      {"'bucket': segment 1 data=NULL", [](auto& c) { c.segments[1].data = nullptr; }},
      {"range name", [](auto& c) { c.range.name = "b\"\n\xff"; }},
      {"'bucket': segment 0 name", [](auto& c) { c.segments[0].name = "w\xc3"; }},
      {"'bucket': segment_count=1048577", [](auto& c) { c.range.segment_count = (1u << 20) + 1; }},
      {"'bucket': segment 0 data",
       [](auto& c) { c.segments[0].data = reinterpret_cast<const char*>(c.memory) + 1; }},
      {"'bucket': segment 0 count", [](auto& c) { c.segments[0].count = (std::uint64_t{1} << 48) + 1; }},
  };
  for (const auto& one : cases) {
    RangeCase c;
    one.change(c);
    RangeSpec s;
    s.name = "untouched";
    std::string error;
    EXPECT_FALSE(range_spec(c.range, default_params(ScalerRule::kTorch), &s, &error)) << one.words;
    EXPECT_NE(error.find(one.words), std::string::npos) << one.words << ": " << error;
    EXPECT_EQ(s.name, "untouched");
  }
}

}  // namespace
}  // namespace stepgate::gate

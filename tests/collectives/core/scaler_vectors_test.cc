// Every rule against recorded trajectories, bit for bit.
#include <map>

#include "collectives/core/simulate.h"
#include "tests/collectives/core/support.h"
#include "tests/collectives/core/vectors.h"

namespace stepgate::test {
namespace {

using nlohmann::json;

ScalerParams vector_params(const json& c) {
  std::string name = c.at("rule");
  const bool one = name == "deepspeed-hysteresis-1";
  if (one) name = "deepspeed";
  ScalerRule rule{};
  EXPECT_TRUE(parse_scaler_rule(name.c_str(), &rule)) << name;
  ScalerParams p = default_params(rule);
  if (one) p.hysteresis = 1;
  p.initial_scale = c.at("initial_scale");
  p.interval = c.at("interval");
  p.growth = c.value("growth", p.growth);
  p.backoff = c.value("backoff", p.backoff);
  p.hysteresis = c.value("hysteresis", p.hysteresis);
  p.minimum = c.value("minimum", p.minimum);
  p.maximum = c.value("maximum", p.maximum);
  return p;
}

void expect_trajectory(const json& c) {
  const ScalerParams p = vector_params(c);
  ASSERT_EQ(invalid_params(p), nullptr) << invalid_params(p);
  const std::string pattern = c.at("pattern");
  const std::vector<double> want = c.at("scale_after_step");
  const Simulation got = simulate_scales(p, pattern);
  ASSERT_EQ(got.error, "");
  ASSERT_EQ(want.size(), pattern.size());
  ASSERT_EQ(got.scales.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(bits(got.scales[i]), bits(want[i]))
        << "step " << i + 1 << " of " << pattern << ": " << got.scales[i] << ", wanted " << want[i];
  }
}

TEST(ScalerVectors, AllCasesBitExact) {
  const json cases = load_vectors("scaler_rules.json").at("cases");
  ASSERT_EQ(cases.size(), 49u);
  std::map<std::string, int> seen;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i) + ", rule " + std::string(cases[i].at("rule")));
    expect_trajectory(cases[i]);
    ++seen[cases[i].at("rule")];
  }
  EXPECT_EQ(seen.size(), 9u) << "eight rules, and deepspeed with hysteresis 1";
}

// A case that says more than the test reads would pass for the wrong reason.
TEST(ScalerVectors, NoCaseHasAnUnreadKey) {
  const std::vector<std::string> read = {
      "rule",   "initial_scale", "interval",   "pattern", "scale_after_step",
      "growth", "backoff",       "hysteresis", "minimum", "maximum"};
  const json vectors = load_vectors("scaler_rules.json");
  for (const auto& c : vectors.at("cases")) {
    for (const auto& [key, value] : c.items()) {
      EXPECT_NE(std::find(read.begin(), read.end(), key), read.end()) << key;
    }
  }
}

}  // namespace
}  // namespace stepgate::test

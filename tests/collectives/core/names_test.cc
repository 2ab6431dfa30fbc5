// Names, defaults and the checks of parameters.
#include <functional>
#include <set>

#include "tests/collectives/core/support.h"

namespace stepgate::test {
namespace {

TEST(Names, RulesParseBack) {
  std::set<std::string> names;
  for (std::uint32_t i = 0; i < kScalerRuleCount; ++i) {
    const auto rule = static_cast<ScalerRule>(i);
    ScalerRule parsed = ScalerRule::kStatic;
    EXPECT_TRUE(parse_scaler_rule(scaler_rule_name(rule), &parsed));
    EXPECT_EQ(parsed, rule);
    names.insert(scaler_rule_name(rule));
  }
  const std::set<std::string> want = {
      "stepgate", "torch", "apex", "megatron", "deepspeed", "deepspeed-consecutive", "static", "none"};
  EXPECT_EQ(names, want);
}

TEST(Names, OtherRulesAreRefusedAndOutIsUntouched) {
  for (const char* name :
       {"", "Torch", "torch ", "unknown", "deepspeed-hysteresis-1", "deepspeed_consecutive"}) {
    ScalerRule out = ScalerRule::kApex;
    EXPECT_FALSE(parse_scaler_rule(name, &out)) << name;
    EXPECT_EQ(out, ScalerRule::kApex);
  }
  ScalerRule out = ScalerRule::kApex;
  EXPECT_FALSE(parse_scaler_rule(nullptr, &out));
}

TEST(Names, ReasonsAndTypes) {
  const char* reasons[] = {"none", "nan", "inf", "veto", "norm"};
  for (std::uint32_t i = 0; i < kReasonCount; ++i)
    EXPECT_STREQ(reason_name(static_cast<Reason>(i)), reasons[i]);
  EXPECT_STREQ(reason_name(static_cast<Reason>(kReasonCount)), "unknown");
  const char* types[] = {"fp32", "fp16", "bf16", "fp64", "fp8_e4m3", "fp8_e5m2"};
  for (std::uint32_t i = 0; i < kElementTypeCount; ++i) {
    EXPECT_STREQ(element_type_name(static_cast<ElementType>(i)), types[i]);
  }
  EXPECT_STREQ(element_type_name(static_cast<ElementType>(99)), "unknown");
  EXPECT_STREQ(scaler_rule_name(static_cast<ScalerRule>(99)), "unknown");
}

struct Defaults {
  ScalerRule rule;
  double initial;
  std::uint64_t interval;
  std::uint32_t hysteresis;
  double minimum;
};

TEST(Defaults, AreThePeersOwn) {
  const Defaults rows[] = {
      {ScalerRule::kStepgate, 65536, 2000, 1, 1},  {ScalerRule::kTorch, 65536, 2000, 1, 0},
      {ScalerRule::kApex, 65536, 2000, 2, 0},      {ScalerRule::kMegatron, 0x1p32, 1000, 2, 1},
      {ScalerRule::kDeepspeed, 65536, 1000, 2, 1}, {ScalerRule::kDeepspeedConsecutive, 65536, 1000, 2, 1},
      {ScalerRule::kStatic, 65536, 2000, 1, 0},    {ScalerRule::kNone, 1, 2000, 1, 0},
  };
  ASSERT_EQ(std::size(rows), kScalerRuleCount);
  for (const Defaults& row : rows) {
    SCOPED_TRACE(scaler_rule_name(row.rule));
    const ScalerParams p = default_params(row.rule);
    EXPECT_EQ(p.rule, row.rule);
    EXPECT_EQ(p.initial_scale, row.initial);
    EXPECT_EQ(p.interval, row.interval);
    EXPECT_EQ(p.hysteresis, row.hysteresis);
    EXPECT_EQ(p.minimum, row.minimum);
    EXPECT_EQ(p.growth, 2.0);
    EXPECT_EQ(p.backoff, 0.5);
    EXPECT_EQ(p.maximum, 0x1p24);
    EXPECT_EQ(invalid_params(p), nullptr) << invalid_params(p);
    EXPECT_EQ(initial_state(p).scale, row.initial);
    EXPECT_EQ(initial_state(p).hysteresis_left, row.hysteresis);
  }
}

TEST(InitialState, ClampsRoundsAndPins) {
  ScalerParams p = default_params(ScalerRule::kStepgate);
  p.initial_scale = 0x1p30;
  EXPECT_EQ(initial_state(p).scale, 0x1p24);
  p.initial_scale = 0.25;
  EXPECT_EQ(initial_state(p).scale, 1.0);
  p = default_params(ScalerRule::kTorch);
  p.initial_scale = 0.1;
  EXPECT_EQ(initial_state(p).scale, static_cast<double>(0.1f)) << "torch keeps the scale in fp32";
  p = default_params(ScalerRule::kDeepspeed);
  p.initial_scale = 0.1;
  EXPECT_EQ(initial_state(p).scale, 0.1);
  p = default_params(ScalerRule::kNone);
  p.initial_scale = 7;
  EXPECT_EQ(initial_state(p).scale, 1.0);
}

struct Wrong {
  const char* what;
  std::vector<ScalerRule> rules;
  std::function<void(ScalerParams&)> spoil;
  const char* word;  // the message names the parameter
};

std::vector<ScalerRule> rules_where(bool (*has)(ScalerRule)) {
  std::vector<ScalerRule> rules;
  for (std::uint32_t i = 0; i < kScalerRuleCount; ++i) {
    if (has(static_cast<ScalerRule>(i))) rules.push_back(static_cast<ScalerRule>(i));
  }
  return rules;
}

std::vector<Wrong> wrong_parameters() {
  const auto every = rules_where([](ScalerRule) { return true; });
  const auto growing = rules_where([](ScalerRule r) { return rule_has_growth(r); });
  const auto backing = rules_where([](ScalerRule r) { return rule_has_backoff(r); });
  const auto delayed = rules_where([](ScalerRule r) { return rule_has_hysteresis(r); });
  const auto floored = rules_where([](ScalerRule r) { return rule_has_minimum(r); });
  const std::vector<ScalerRule> capped = {ScalerRule::kStepgate};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return {
      {"scale 0", every, [](auto& p) { p.initial_scale = 0; }, "initial scale"},
      {"scale negative", every, [](auto& p) { p.initial_scale = -1; }, "initial scale"},
      {"scale NaN", every, [=](auto& p) { p.initial_scale = nan; }, "initial scale"},
      {"scale infinite", every, [](auto& p) { p.initial_scale = INFINITY; }, "initial scale"},
      {"scale above fp32", every, [](auto& p) { p.initial_scale = 0x1p128; }, "initial scale"},
      {"scale whose inverse is above fp32", every, [](auto& p) { p.initial_scale = 0x1p-128; },
       "initial scale"},
      {"growth 1", growing, [](auto& p) { p.growth = 1; }, "growth"},
      {"growth below 1", growing, [](auto& p) { p.growth = 0.5; }, "growth"},
      {"growth NaN", every, [=](auto& p) { p.growth = nan; }, "growth"},
      {"growth infinite", every, [](auto& p) { p.growth = INFINITY; }, "growth"},
      {"growth 1 in fp32", growing, [](auto& p) { p.growth = 1 + 1e-12; }, "growth"},
      {"backoff 0", backing, [](auto& p) { p.backoff = 0; }, "backoff"},
      {"backoff 1", backing, [](auto& p) { p.backoff = 1; }, "backoff"},
      {"backoff above 1", backing, [](auto& p) { p.backoff = 2; }, "backoff"},
      {"backoff negative", backing, [](auto& p) { p.backoff = -0.5; }, "backoff"},
      {"backoff NaN", every, [=](auto& p) { p.backoff = nan; }, "backoff"},
      {"interval 0", growing, [](auto& p) { p.interval = 0; }, "interval"},
      {"interval too large", growing, [](auto& p) { p.interval = kMaxInterval + 1; }, "interval"},
      {"hysteresis 0", delayed, [](auto& p) { p.hysteresis = 0; }, "hysteresis"},
      {"minimum 0", floored, [](auto& p) { p.minimum = 0; }, "minimum"},
      {"minimum negative", floored, [](auto& p) { p.minimum = -1; }, "minimum"},
      {"minimum NaN", every, [=](auto& p) { p.minimum = nan; }, "minimum"},
      {"maximum NaN", every, [=](auto& p) { p.maximum = nan; }, "maximum"},
      {"maximum infinite", every, [](auto& p) { p.maximum = INFINITY; }, "maximum"},
      {"maximum above fp32", capped, [](auto& p) { p.maximum = 0x1p128; }, "maximum"},
      {"minimum above maximum", capped, [](auto& p) { p.minimum = 2 * p.maximum; }, "minimum"},
      {"unknown rule", capped, [](auto& p) { p.rule = static_cast<ScalerRule>(8); }, "rule"},
      {"none with a scale", {ScalerRule::kNone}, [](auto& p) { p.initial_scale = 2; }, "initial scale"},
  };
}

TEST(InvalidParams, EachBadParameterIsNamed) {
  for (const Wrong& row : wrong_parameters()) {
    EXPECT_FALSE(row.rules.empty()) << row.what;
    for (const ScalerRule rule : row.rules) {
      ScalerParams p = default_params(rule);
      row.spoil(p);
      const char* message = invalid_params(p);
      ASSERT_NE(message, nullptr) << row.what << ", rule " << scaler_rule_name(rule);
      EXPECT_NE(std::string(message).find(row.word), std::string::npos) << row.what << ": " << message;
    }
  }
}

TEST(InvalidParams, WhatARuleDoesNotHaveIsNotJudged) {
  ScalerParams p = default_params(ScalerRule::kTorch);
  p.hysteresis = 0;
  p.minimum = 4;
  p.maximum = 2;
  EXPECT_EQ(invalid_params(p), nullptr);
  p = default_params(ScalerRule::kDeepspeed);
  p.backoff = 3;
  EXPECT_EQ(invalid_params(p), nullptr);
  p = default_params(ScalerRule::kStatic);
  p.interval = 0;
  EXPECT_EQ(invalid_params(p), nullptr);
}

}  // namespace
}  // namespace stepgate::test

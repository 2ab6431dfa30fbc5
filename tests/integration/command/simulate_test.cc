// `stepgate simulate` against the vectors, and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/integration/process.h"

namespace stepgate::test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

std::string shortest(double x) {
  char text[64];
  return std::string(text, std::to_chars(text, text + sizeof text, x).ptr);
}

std::string option_of(const std::string& key) {
  std::string option = "--" + key;
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

Words command_of(const json& test_case) {
  Words words = {command_path(), "simulate"};
  const std::string rule = test_case.at("rule");
  const bool alias = rule == "deepspeed-hysteresis-1";
  words.insert(words.end(), {"--rule", alias ? "deepspeed" : rule});
  if (alias) words.insert(words.end(), {"--hysteresis", "1"});
  for (const auto& [key, value] : test_case.items()) {
    if (value.is_number()) words.insert(words.end(), {option_of(key), shortest(value.get<double>())});
  }
  words.push_back(test_case.at("pattern"));
  return words;
}

std::vector<double> numbers_of(const std::string& line) {
  std::vector<double> numbers;
  const char* at = line.data();
  const char* end = line.data() + line.size();
  while (at < end) {
    double number = 0;
    const auto read = std::from_chars(at, end, number);
    if (read.ec != std::errc()) break;
    numbers.push_back(number);
    at = read.ptr + 1;
  }
  return numbers;
}

json vectors() {
  std::ifstream file(STEPGATE_TEST_SOURCE "/tests/vectors/scaler_rules.json");
  return json::parse(file);
}

TEST(Simulate, EveryVectorBitForBit) {
  const json all = vectors();
  ASSERT_EQ(all.at("cases").size(), 49u);
  for (const json& test_case : all.at("cases")) {
    const Outcome outcome = run(command_of(test_case));
    ASSERT_EQ(outcome.status, 0) << outcome.err << test_case.dump();
    ASSERT_EQ(lines_of(outcome.out).size(), 1u);
    EXPECT_EQ(numbers_of(outcome.out), test_case.at("scale_after_step").get<std::vector<double>>())
        << test_case.dump();
  }
}

TEST(Simulate, NumbersAreAsShortAsTheyCanBe) {
  const Outcome outcome =
      run({command_path(), "simulate", "--rule", "torch", "--initial-scale", "0.1", "--interval", "1", "x."});
  EXPECT_EQ(outcome.out, "0.05000000074505806 0.10000000149011612\n");
  EXPECT_EQ(
      run({command_path(), "simulate", "--rule=torch", "--initial-scale=65536", "--interval=1", "..x"}).out,
      "131072 262144 131072\n");
}

struct Refusal {
  Words words;
  std::string says;
};

class SimulateRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(SimulateRefuses, WithStatus2AndTheReason) {
  Words words = {command_path(), "simulate", "--initial-scale", "64", "--interval", "4"};
  words.insert(words.end(), GetParam().words.begin(), GetParam().words.end());
  const Outcome outcome = run(words);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find(GetParam().says), std::string::npos) << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(
    BadArguments, SimulateRefuses,
    testing::Values(
        Refusal{{"--rule", "torch", "--hysteresis", "2", "x"}, "rule torch has no such parameter"},
        Refusal{{"--rule", "torch", "--minimum", "1", "x"}, "rule torch has no such parameter"},
        Refusal{{"--rule", "megatron", "--maximum", "8", "x"}, "rule megatron has no such parameter"},
        Refusal{{"--rule", "deepspeed", "--backoff", "0.5", "x"}, "rule deepspeed has no such parameter"},
        Refusal{{"--rule", "static", "--growth", "2", "x"}, "rule static has no such parameter"},
        Refusal{{"--rule", "pytorch", "x"}, "--rule is 'pytorch'; allowed: stepgate, torch, apex"},
        Refusal{{"x"}, "--rule is missing"}, Refusal{{"--rule", "torch"}, "the pattern is missing"},
        Refusal{{"--rule", "torch", "x.y"}, "step 3 is 'y'"},
        Refusal{{"--rule", "torch", "x", "."}, "one pattern only"},
        Refusal{{"--rule", "torch", "--growth", "1", "x"}, "--growth is '1'; allowed: a number above 1"},
        Refusal{{"--rule", "torch", "--backoff", "1", "x"}, "--backoff is '1'; allowed: a number above 0"},
        Refusal{{"--rule", "torch", "--backoff", "1e-300", "x"}, "--backoff is '1e-300'; allowed: "},
        Refusal{{"--rule", "torch", "--interval", "18446744073709551615", "x"},
                "--interval is '18446744073709551615'; allowed: a whole number from 1 to 9007199254740992"},
        Refusal{{"--rule", "torch", "--initial-scale", "0", "x"}, "--initial-scale is '0'; allowed: "},
        Refusal{{"--rule", "torch", "--initial-scale", "nan", "x"}, "--initial-scale is 'nan'; allowed: "},
        Refusal{{"--rule", "torch", "--initial-scale", "1e39", "x"}, "--initial-scale is '1e39'; allowed: "},
        Refusal{{"--rule", "none", "--initial-scale", "2", "x"}, "--initial-scale is '2'; allowed: 1 with"},
        Refusal{{"--rule", "stepgate", "--minimum", "8", "--maximum", "4", "x"},
                "--minimum is '8'; allowed: at most --maximum, 4"},
        Refusal{{"--rule", "torch", "--growth", "two", "x"}, "--growth is 'two'; allowed: a number"},
        Refusal{{"--rule", "torch", "--interval", "0", "x"}, "--interval is '0'"},
        Refusal{{"--rule", "torch", "--initial-scale", "-3", "x"}, "--initial-scale is '-3'; allowed: "},
        Refusal{{"--rule", "torch", "--colour", "red", "x"}, "unknown option '--colour'"}));

}  // namespace
}  // namespace stepgate::test

#include "integration/command/simulate.h"

#include <cmath>
#include <map>
#include <string>

#include "collectives/core/decimal.h"
#include "collectives/core/scaler.h"
#include "collectives/core/scaler_update.h"
#include "collectives/core/simulate.h"
#include "integration/command/arguments.h"
#include "integration/command/streams.h"

namespace stepgate::command {
namespace {

constexpr const char* kHelp =
    "usage: stepgate simulate --rule R --initial-scale S --interval N [--growth G] [--backoff B]\n"
    "                         [--hysteresis H] [--minimum M] [--maximum M] PATTERN\n"
    "\n"
    "Prints the loss scale after each step of PATTERN (x an overflow, . a good step), one line.\n"
    "A parameter that the rule does not have is refused; one that is not given takes the rule's default.\n"
    "\n"
    "  --rule R           stepgate, torch, apex, megatron, deepspeed, deepspeed-consecutive, static, none\n"
    "  --initial-scale S  the scale before the first step\n"
    "  --interval N       good steps before a growth (deepspeed: the window)\n"
    "  --growth G         factor of a growth (deepspeed: of a back-off as well)\n"
    "  --backoff B        factor of a back-off\n"
    "  --hysteresis H     overflows before a back-off: apex, megatron, deepspeed, deepspeed-consecutive\n"
    "  --minimum M        stepgate, megatron, deepspeed, deepspeed-consecutive\n"
    "  --maximum M        stepgate\n";

std::string all_rules() {
  std::string names;
  for (std::uint32_t r = 0; r < kScalerRuleCount; ++r) {
    if (r > 0) names += ", ";
    names += scaler_rule_name(static_cast<ScalerRule>(r));
  }
  return names;
}

using Values = std::map<std::string_view, std::string_view>;

struct Request {
  Values values;
  std::string_view pattern;
  bool has_pattern = false;
  bool help = false;
};

bool is_known(std::string_view option) {
  static constexpr std::string_view kKnown[] = {"--rule",    "--initial-scale", "--interval", "--growth",
                                                "--backoff", "--hysteresis",    "--minimum",  "--maximum"};
  for (const std::string_view known : kKnown) {
    if (option == known) return true;
  }
  return false;
}

void read_option(Arguments& arguments, Request& request) {
  const std::string_view option = arguments.take();
  if (option == "--help" || option == "-h") {
    request.help = true;
    return;
  }
  if (!is_known(option)) {
    throw UsageError("unknown option '" + std::string(option) + "'; see stepgate simulate --help");
  }
  request.values[option] = arguments.value();
}

Request read_request(const std::vector<std::string_view>& words) {
  Request request;
  Arguments arguments(words);
  while (!arguments.done()) {
    if (arguments.at_option()) {
      read_option(arguments, request);
      continue;
    }
    const std::string_view word = arguments.take();
    if (word == "--") continue;
    if (request.has_pattern)
      throw UsageError("one pattern only; '" + std::string(word) + "' is a second one");
    // take() splits only words that start with "--", so this is the whole word.
    request.pattern = word;
    request.has_pattern = true;
  }
  return request;
}

ScalerRule read_rule(const Values& values) {
  const auto found = values.find("--rule");
  if (found == values.end()) throw UsageError("--rule is missing; allowed: " + all_rules());
  ScalerRule rule;
  if (!parse_scaler_rule(std::string(found->second).c_str(), &rule)) {
    bad_value("--rule", found->second, all_rules());
  }
  return rule;
}

// --interval is part of every call, so rules that never change the scale take it as well.
bool rule_takes(ScalerRule rule, std::string_view option) {
  if (option == "--growth") return rule_is_dynamic(rule);
  if (option == "--backoff") return rule_has_backoff(rule);
  if (option == "--hysteresis") return rule_has_hysteresis(rule);
  if (option == "--minimum") return rule_has_minimum(rule);
  if (option == "--maximum") return rule_has_maximum(rule);
  return true;
}

// The limits are those of the core; here they get the option's name.
double parse_scale(std::string_view option, std::string_view text) {
  const double scale = parse_number(option, text);
  if (!scaler_detail::usable_fp32(scale) || !scaler_detail::usable_fp32(1.0 / scale)) {
    bad_value(option, text, "a number above 0 that is, like its inverse, finite in fp32 (3e-39 to 3.4e+38)");
  }
  return scale;
}

double parse_growth(std::string_view option, std::string_view text) {
  const double growth = parse_number(option, text);
  if (!(static_cast<float>(growth) > 1.0f) || !std::isfinite(static_cast<float>(growth))) {
    bad_value(option, text, "a number above 1 and finite, in fp32 as well");
  }
  return growth;
}

double parse_backoff(std::string_view option, std::string_view text) {
  const double backoff = parse_number(option, text);
  const auto single = static_cast<float>(backoff);
  if (!(single > 0.0f && single < 1.0f)) {
    bad_value(option, text, "a number above 0 and below 1, in fp32 as well");
  }
  return backoff;
}

void set_parameter(std::string_view option, std::string_view text, ScalerParams& params) {
  if (option == "--initial-scale") params.initial_scale = parse_scale(option, text);
  if (option == "--interval") params.interval = parse_count(option, text, 1, kMaxInterval);
  if (option == "--growth") params.growth = parse_growth(option, text);
  if (option == "--backoff") params.backoff = parse_backoff(option, text);
  if (option == "--minimum") params.minimum = parse_scale(option, text);
  if (option == "--maximum") params.maximum = parse_scale(option, text);
  if (option == "--hysteresis") {
    params.hysteresis = static_cast<std::uint32_t>(parse_count(option, text, 1, 1u << 31));
  }
}

// What only several parameters together make wrong.
void check_together(const ScalerParams& params) {
  if (params.rule == ScalerRule::kNone && params.initial_scale != 1.0) {
    bad_value("--initial-scale", shortest_decimal(params.initial_scale), "1 with rule none");
  }
  if (rule_has_maximum(params.rule) && params.minimum > params.maximum) {
    bad_value("--minimum", shortest_decimal(params.minimum),
              "at most --maximum, " + shortest_decimal(params.maximum));
  }
}

ScalerParams read_params(const Values& values) {
  ScalerParams params = default_params(read_rule(values));
  for (const auto& [option, text] : values) {
    if (!rule_takes(params.rule, option)) {
      throw UsageError(std::string(option) + " is '" + std::string(text) + "'; rule " +
                       scaler_rule_name(params.rule) + " has no such parameter");
    }
    set_parameter(option, text, params);
  }
  for (const char* needed : {"--initial-scale", "--interval"}) {
    if (!values.contains(needed)) throw UsageError(std::string(needed) + " is missing");
  }
  check_together(params);
  return params;
}

void print_scales(const std::vector<double>& scales) {
  std::string line;
  for (const double scale : scales) {
    if (!line.empty()) line += ' ';
    line += shortest_decimal(scale);
  }
  print((line + "\n").c_str());
}

}  // namespace

int simulate_main(const std::vector<std::string_view>& words) {
  const Request request = read_request(words);
  if (request.help) {
    print(kHelp);
    return 0;
  }
  const ScalerParams params = read_params(request.values);
  if (!request.has_pattern) throw UsageError("the pattern is missing, such as x..x.");
  const Simulation simulation = simulate_scales(params, request.pattern);
  if (!simulation.error.empty()) throw UsageError(simulation.error);
  print_scales(simulation.scales);
  return 0;
}

}  // namespace stepgate::command

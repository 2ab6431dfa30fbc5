#include "integration/examples/charlm/inject.h"

#include <limits>
#include <stdexcept>

#include "integration/examples/charlm/half.h"
#include "integration/examples/charlm/parse.h"
#include "integration/examples/charlm/text.h"

namespace stepgate::charlm {
namespace {

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t colon; (colon = text.find(':')) != std::string_view::npos;) {
    parts.push_back(text.substr(0, colon));
    text.remove_prefix(colon + 1);
  }
  parts.push_back(text);
  return parts;
}

Fault parse_fault(std::string_view text) {
  if (text == "inf") return Fault::kInf;
  if (text == "nan") return Fault::kNan;
  if (text == "underflow") return Fault::kUnderflow;
  refuse("the kind in --inject", text, "inf, nan, underflow");
}

}  // namespace

Injection parse_injection(std::string_view text) {
  const std::vector<std::string_view> parts = split(text);
  if (parts.size() != 4) refuse("--inject", text, "rank:step:parameter:inf|nan|underflow");
  Injection injection;
  injection.rank = static_cast<unsigned>(parse_whole("the rank in --inject", parts[0], 0, 1u << 20));
  injection.step = parse_whole("the step in --inject", parts[1], 1);
  injection.parameter = parts[2];
  injection.fault = parse_fault(parts[3]);
  return injection;
}

RandomInjections parse_random_injections(std::string_view text) {
  const std::vector<std::string_view> parts = split(text);
  if (parts.size() != 2) refuse("--random-injections", text, "SEED:RATE");
  return {parse_whole("the seed in --random-injections", parts[0], 0),
          parse_real("the rate in --random-injections", parts[1], 0, 1)};
}

std::optional<Injection> random_injection(const RandomInjections& random, std::uint64_t step, unsigned world,
                                          const std::vector<Parameter>& parameters) {
  const std::uint64_t base = mix(mix(random.seed) + step);
  if (static_cast<double>(mix(base + 1) >> 11) * 0x1p-53 >= random.rate) return std::nullopt;
  Injection injection;
  injection.step = step;
  injection.rank = static_cast<unsigned>(mix(base + 2) % world);
  injection.parameter = parameters[mix(base + 3) % parameters.size()].name;
  injection.fault = mix(base + 4) % 2 == 0 ? Fault::kInf : Fault::kNan;
  return injection;
}

const Parameter& find_parameter(const std::vector<Parameter>& parameters, const std::string& name) {
  std::string names;
  for (const Parameter& parameter : parameters) {
    if (parameter.name == name) return parameter;
    names += (names.empty() ? "" : ", ") + parameter.name;
  }
  refuse("the parameter in --inject", name, names);
}

void inject(Fault fault, const Parameter& parameter, float* gradients) {
  float* first = gradients + parameter.offset;
  float& middle = first[parameter.count() / 2];
  switch (fault) {
    case Fault::kInf: middle = std::numeric_limits<float>::infinity(); break;
    case Fault::kNan: middle = std::numeric_limits<float>::quiet_NaN(); break;
    case Fault::kUnderflow:
      for (std::size_t i = 0; i < parameter.count(); ++i) first[i] = round_to_half(first[i] * 0x1p-24f);
      break;
  }
}

}  // namespace stepgate::charlm

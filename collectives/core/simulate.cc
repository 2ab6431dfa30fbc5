#include "collectives/core/simulate.h"

#include <cstdio>

namespace stepgate {
namespace {

std::string describe_character(unsigned char c) {
  char text[16];
  if (c >= 0x20 && c < 0x7f) {
    std::snprintf(text, sizeof text, "'%c'", c);
  } else {
    std::snprintf(text, sizeof text, "byte 0x%02x", c);
  }
  return text;
}

std::string describe_bad_character(std::string_view pattern, std::size_t at) {
  return "pattern: step " + std::to_string(at + 1) + " is " +
         describe_character(static_cast<unsigned char>(pattern[at])) +
         "; allowed: 'x' (overflow) and '.' (good step)";
}

}  // namespace

Simulation simulate_scales(const ScalerParams& params, std::string_view pattern) {
  Simulation result;
  if (const char* wrong = invalid_params(params)) {
    result.error = wrong;
    return result;
  }
  const std::size_t bad = pattern.find_first_not_of("x.");
  if (bad != std::string_view::npos) {
    result.error = describe_bad_character(pattern, bad);
    return result;
  }
  ScalerState state = initial_state(params);
  result.scales.reserve(pattern.size());
  for (const char c : pattern) {
    update_scaler(params, c == 'x', state);
    result.scales.push_back(state.scale);
  }
  return result;
}

}  // namespace stepgate

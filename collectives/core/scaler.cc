// Defaults and checks of the scaler's parameters. The update itself is in scaler_update.h.
#include "collectives/core/scaler.h"

#include <cmath>

namespace stepgate {
namespace {

// Scales are handed out as fp32, so a scale must survive that and so must its inverse.
bool usable_scale(double x) {
  return scaler_detail::usable_fp32(x) && scaler_detail::usable_fp32(1.0 / x);
}

// The rules of peers that keep the scale in an fp32 tensor, and ours.
bool holds_fp32(ScalerRule r) {
  return r != ScalerRule::kDeepspeed && r != ScalerRule::kDeepspeedConsecutive;
}

const char* invalid_scale(const ScalerParams& p) {
  if (!usable_scale(p.initial_scale)) {
    return "initial scale must be positive, and it and its inverse finite in fp32";
  }
  if (p.rule == ScalerRule::kNone && p.initial_scale != 1.0) return "initial scale of rule none must be 1";
  return nullptr;
}

// Compared as fp32 too, since megatron multiplies by the rounded factor.
const char* invalid_factors(const ScalerParams& p) {
  const auto growth = static_cast<float>(p.growth);
  if (!(growth > 1.0f) || !std::isfinite(growth)) return "growth must be above 1 and finite in fp32";
  const auto backoff = static_cast<float>(p.backoff);
  if (rule_has_backoff(p.rule) && !(backoff > 0.0f && backoff < 1.0f)) {
    return "backoff must lie between 0 and 1, both excluded";
  }
  return nullptr;
}

const char* invalid_counts(const ScalerParams& p) {
  if (p.interval == 0 || p.interval > kMaxInterval) return "interval must lie between 1 and 2^53";
  if (rule_has_hysteresis(p.rule) && p.hysteresis == 0) return "hysteresis must be at least 1";
  return nullptr;
}

const char* invalid_limits(const ScalerParams& p) {
  if (rule_has_minimum(p.rule) && !usable_scale(p.minimum)) {
    return "minimum must be positive, and it and its inverse finite in fp32";
  }
  if (!rule_has_maximum(p.rule)) return nullptr;
  if (!usable_scale(p.maximum)) return "maximum must be positive, and it and its inverse finite in fp32";
  if (p.minimum > p.maximum) return "minimum must not be above maximum";
  return nullptr;
}

bool all_finite(const ScalerParams& p) {
  return std::isfinite(p.initial_scale) && std::isfinite(p.growth) && std::isfinite(p.backoff) &&
         std::isfinite(p.minimum) && std::isfinite(p.maximum);
}

}  // namespace

ScalerParams default_params(ScalerRule rule) noexcept {
  ScalerParams p;
  p.rule = rule;
  if (rule_has_hysteresis(rule)) p.hysteresis = 2;
  if (rule_has_minimum(rule)) p.minimum = 1.0;
  if (rule == ScalerRule::kNone) p.initial_scale = 1.0;
  if (rule == ScalerRule::kMegatron) {
    p.initial_scale = 0x1p32;
    p.interval = 1000;
  }
  if (rule == ScalerRule::kDeepspeed || rule == ScalerRule::kDeepspeedConsecutive) p.interval = 1000;
  return p;
}

ScalerState initial_state(const ScalerParams& p) noexcept {
  ScalerState s;
  s.scale = holds_fp32(p.rule) ? scaler_detail::round_fp32(p.initial_scale) : p.initial_scale;
  if (rule_has_maximum(p.rule)) s.scale = scaler_detail::clamp(s.scale, p.minimum, p.maximum);
  if (p.rule == ScalerRule::kNone) s.scale = 1.0;
  s.hysteresis_left = rule_has_hysteresis(p.rule) ? p.hysteresis : 1;
  return s;
}

const char* invalid_params(const ScalerParams& p) noexcept {
  if (static_cast<std::uint32_t>(p.rule) >= kScalerRuleCount) return "rule is unknown";
  if (!all_finite(p)) return "initial scale, growth, backoff, minimum and maximum must be finite";
  if (const char* wrong = invalid_scale(p)) return wrong;
  if (!rule_is_dynamic(p.rule)) return nullptr;
  if (const char* wrong = invalid_factors(p)) return wrong;
  if (const char* wrong = invalid_counts(p)) return wrong;
  return invalid_limits(p);
}

}  // namespace stepgate

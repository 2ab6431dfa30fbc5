// update_scaler(): the arithmetic behind scaler.h. Include scaler.h, not this.
//
// Rounding at each change: torch, apex and stepgate fp32(scale * factor in fp64); megatron
// fp32(scale * fp32(factor)); deepspeed stays in fp64.
#pragma once

#include <cmath>

#include "collectives/core/scaler.h"

namespace stepgate {
namespace scaler_detail {

STEPGATE_HD inline bool finite(double x) {
  return x - x == 0.0;
}

STEPGATE_HD inline double round_fp32(double x) {
  return static_cast<double>(static_cast<float>(x));
}

// Positive and finite once rounded to fp32.
STEPGATE_HD inline bool usable_fp32(double x) {
  const float f = static_cast<float>(x);
  return f > 0.0f && f - f == 0.0f;
}

STEPGATE_HD inline double clamp(double x, double lo, double hi) {
  return x < lo ? lo : (x > hi ? hi : x);
}

// torch: a growth to a non-finite fp32 is refused, the tracker restarts all the same.
STEPGATE_HD inline void grow_fp32(const ScalerParams& p, double factor, ScalerState& s) {
  const double grown = round_fp32(s.scale * factor);
  if (finite(grown)) s.scale = grown;
  if (rule_has_maximum(p.rule)) s.scale = clamp(s.scale, p.minimum, p.maximum);
}

STEPGATE_HD inline void update_torch(const ScalerParams& p, bool overflow, ScalerState& s) {
  const bool clamped = p.rule == ScalerRule::kStepgate;
  if (overflow) {
    s.scale = round_fp32(s.scale * p.backoff);
    if (clamped) s.scale = clamp(s.scale, p.minimum, p.maximum);
    s.growth_tracker = 0;
    return;
  }
  ++s.growth_tracker;
  const auto interval = static_cast<std::int64_t>(p.interval);
  const bool due = clamped ? s.growth_tracker >= interval : s.growth_tracker == interval;
  if (!due) return;
  grow_fp32(p, p.growth, s);
  s.growth_tracker = 0;
}

STEPGATE_HD inline void update_apex(const ScalerParams& p, bool overflow, ScalerState& s) {
  if (!overflow) {
    s.hysteresis_left = p.hysteresis;
    update_torch(p, false, s);
    return;
  }
  --s.hysteresis_left;
  if (s.hysteresis_left > 0) {
    s.growth_tracker = 0;
    return;
  }
  update_torch(p, true, s);
}

STEPGATE_HD inline void update_megatron(const ScalerParams& p, bool overflow, ScalerState& s) {
  if (overflow) {
    s.growth_tracker = 0;
    --s.hysteresis_left;
    if (s.hysteresis_left <= 0) {
      const double backed = round_fp32(s.scale * round_fp32(p.backoff));
      s.scale = backed > p.minimum ? backed : p.minimum;
    }
    return;
  }
  ++s.growth_tracker;
  if (s.growth_tracker != static_cast<std::int64_t>(p.interval)) return;
  s.growth_tracker = 0;
  s.hysteresis_left = p.hysteresis;
  grow_fp32(p, round_fp32(p.growth), s);
}

STEPGATE_HD inline void update_deepspeed(const ScalerParams& p, bool overflow, ScalerState& s) {
  if (overflow) {
    if (p.hysteresis == 1 || s.hysteresis_left == 1) {
      const double backed = s.scale / p.growth;
      s.scale = backed > p.minimum ? backed : p.minimum;
    } else {
      --s.hysteresis_left;
    }
    s.last_overflow = s.iteration;
  } else {
    if (p.rule == ScalerRule::kDeepspeedConsecutive) s.hysteresis_left = p.hysteresis;
    const std::int64_t stable = (s.iteration - s.last_overflow) - 1;
    if (stable > 0 && stable % static_cast<std::int64_t>(p.interval) == 0) {
      s.hysteresis_left = p.hysteresis;
      const double grown = s.scale * p.growth;
      if (finite(grown)) s.scale = grown;
    }
  }
}

}  // namespace scaler_detail

// One step's update. overflow: any decision set of the step had an inf or a NaN; otherwise the step
// was good (applied). A step that was only vetoed calls nothing and leaves the state as it was.
STEPGATE_HD inline void update_scaler(const ScalerParams& p, bool overflow, ScalerState& s) {
  switch (p.rule) {
    case ScalerRule::kStepgate:
    case ScalerRule::kTorch: scaler_detail::update_torch(p, overflow, s); break;
    case ScalerRule::kApex: scaler_detail::update_apex(p, overflow, s); break;
    case ScalerRule::kMegatron: scaler_detail::update_megatron(p, overflow, s); break;
    case ScalerRule::kDeepspeed:
    case ScalerRule::kDeepspeedConsecutive: scaler_detail::update_deepspeed(p, overflow, s); break;
    case ScalerRule::kStatic:
    case ScalerRule::kNone: break;
  }
  ++s.iteration;
}

}  // namespace stepgate

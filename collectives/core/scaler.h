// The dynamic loss scaler: one pure update for every rule. Host and device, bit-exact on both.
//
//   ScalerParams p = default_params(ScalerRule::kTorch);
//   ScalerState s = initial_state(p);
//   update_scaler(p, /*overflow=*/true, s);   // s.scale is now half
//
// Thread: any; the caller owns the state. Sources: torch `_amp_update_scale_`, apex
// `update_scale_hysteresis`, Megatron-LM `DynamicGradScaler`, DeepSpeed `DynamicLossScaler`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/core/host_device.h"

namespace stepgate {

// Values are part of state blobs and configuration digests: never renumber.
enum class ScalerRule : std::uint32_t {
  kStepgate = 0,  // torch with >= instead of ==, clamped to [minimum, maximum]
  kTorch = 1,
  kApex = 2,
  kMegatron = 3,
  kDeepspeed = 4,
  kDeepspeedConsecutive = 5,  // hysteresis refilled by every good step
  kStatic = 6,                // the scale never changes
  kNone = 7,                  // no scaling: scale 1
};
inline constexpr std::uint32_t kScalerRuleCount = 8;

struct ScalerParams {
  ScalerRule rule = ScalerRule::kStepgate;
  std::uint32_t hysteresis = 1;  // apex, megatron, deepspeed*: default 2
  double initial_scale = 65536.0;
  double growth = 2.0;  // deepspeed: the one factor, both ways
  double backoff = 0.5;
  std::uint64_t interval = 2000;  // good steps before a growth (deepspeed: the window)
  double minimum = 0.0;           // stepgate, megatron, deepspeed*: default 1
  double maximum = 0x1p24;        // stepgate only
};
static_assert(sizeof(ScalerParams) == 56, "ScalerParams is shared with device code and state blobs");

struct ScalerState {
  double scale = 65536.0;            // the scale of the next backward
  std::int64_t growth_tracker = 0;   // good steps since the last change (deepspeed: unused)
  std::int64_t hysteresis_left = 1;  // megatron lets it go below zero
  std::int64_t iteration = 0;        // updates so far (deepspeed)
  std::int64_t last_overflow = -1;   // iteration of the last overflow (deepspeed)
};
static_assert(sizeof(ScalerState) == 40, "ScalerState is shared with device code and state blobs");

// Which parameters a rule has; setting another one is refused by the configuration.
STEPGATE_HD constexpr bool rule_has_hysteresis(ScalerRule r) {
  return r == ScalerRule::kApex || r == ScalerRule::kMegatron || r == ScalerRule::kDeepspeed ||
         r == ScalerRule::kDeepspeedConsecutive;
}
STEPGATE_HD constexpr bool rule_has_minimum(ScalerRule r) {
  return r == ScalerRule::kStepgate || r == ScalerRule::kMegatron || r == ScalerRule::kDeepspeed ||
         r == ScalerRule::kDeepspeedConsecutive;
}
STEPGATE_HD constexpr bool rule_has_maximum(ScalerRule r) {
  return r == ScalerRule::kStepgate;
}
STEPGATE_HD constexpr bool rule_is_dynamic(ScalerRule r) {
  return r != ScalerRule::kStatic && r != ScalerRule::kNone;
}

// DeepSpeed divides by the one factor instead.
STEPGATE_HD constexpr bool rule_has_backoff(ScalerRule r) {
  return rule_is_dynamic(r) && r != ScalerRule::kDeepspeed && r != ScalerRule::kDeepspeedConsecutive;
}
// Growth and interval; the limits have their own questions above.
STEPGATE_HD constexpr bool rule_has_growth(ScalerRule r) {
  return rule_is_dynamic(r);
}
// Every count up to here is exact in fp64, so state survives JSON.
inline constexpr std::uint64_t kMaxInterval = std::uint64_t{1} << 53;

// The rule's own defaults (peers' where the rule is a peer's).
ScalerParams default_params(ScalerRule rule) noexcept;

// State before the first step. A stepgate scale outside [minimum, maximum] is clamped.
ScalerState initial_state(const ScalerParams& p) noexcept;

// "stepgate", "torch", ..., as configuration takes them.
const char* scaler_rule_name(ScalerRule rule) noexcept;
// False, and out untouched, for a name that no rule has.
bool parse_scaler_rule(const char* name, ScalerRule* out) noexcept;

// nullptr when the parameters are usable, else what is wrong with the first bad one, static text.
const char* invalid_params(const ScalerParams& p) noexcept;

// At minimum: the rule has one and the scale stands on it.
STEPGATE_HD inline bool at_minimum(const ScalerParams& p, const ScalerState& s) {
  return rule_has_minimum(p.rule) && s.scale <= p.minimum;
}

}  // namespace stepgate

#include "collectives/core/scaler_update.h"

// The words that logs, labels, JSON and configuration use for the enumerations.
#include <cstring>

#include "collectives/core/decision.h"
#include "collectives/core/element_type.h"
#include "collectives/core/scaler.h"

namespace stepgate {

const char* element_type_name(ElementType t) noexcept {
  switch (t) {
    case ElementType::kFp32: return "fp32";
    case ElementType::kFp16: return "fp16";
    case ElementType::kBf16: return "bf16";
    case ElementType::kFp64: return "fp64";
    case ElementType::kFp8E4M3: return "fp8_e4m3";
    case ElementType::kFp8E5M2: return "fp8_e5m2";
  }
  return "unknown";
}

const char* reason_name(Reason r) noexcept {
  switch (r) {
    case Reason::kNone: return "none";
    case Reason::kNan: return "nan";
    case Reason::kInf: return "inf";
    case Reason::kVeto: return "veto";
    case Reason::kNorm: return "norm";
  }
  return "unknown";
}

const char* scaler_rule_name(ScalerRule rule) noexcept {
  switch (rule) {
    case ScalerRule::kStepgate: return "stepgate";
    case ScalerRule::kTorch: return "torch";
    case ScalerRule::kApex: return "apex";
    case ScalerRule::kMegatron: return "megatron";
    case ScalerRule::kDeepspeed: return "deepspeed";
    case ScalerRule::kDeepspeedConsecutive: return "deepspeed-consecutive";
    case ScalerRule::kStatic: return "static";
    case ScalerRule::kNone: return "none";
  }
  return "unknown";
}

bool parse_scaler_rule(const char* name, ScalerRule* out) noexcept {
  if (name == nullptr) return false;
  for (std::uint32_t i = 0; i < kScalerRuleCount; ++i) {
    const auto rule = static_cast<ScalerRule>(i);
    if (std::strcmp(name, scaler_rule_name(rule)) != 0) continue;
    *out = rule;
    return true;
  }
  return false;
}

}  // namespace stepgate

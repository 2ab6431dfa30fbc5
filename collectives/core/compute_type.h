// The compute type where a job names none: whose range a gradient's small and large elements are judged by.
//
// Thread: any. Pure functions, no state.
#pragma once

#include "collectives/core/element_type.h"
#include "collectives/core/scaler.h"

namespace stepgate {

// Whether gradients under these parameters carry a loss scale. A static scale of 1 is how a job turns its
// scaler off.
constexpr bool scales_loss(const ScalerParams& p) {
  return p.rule != ScalerRule::kNone && (p.rule != ScalerRule::kStatic || p.initial_scale != 1);
}

// A loss is scaled where the backward pass runs in fp16, so that type decides what was too small for it, also
// for gradients stored in fp32. fp8 is narrower than fp16: no element of it could be too small or too large.
constexpr ElementType default_compute_type(ElementType stored, bool loss_scaled) {
  const bool fp8 = stored == ElementType::kFp8E4M3 || stored == ElementType::kFp8E5M2;
  return loss_scaled && !fp8 ? ElementType::kFp16 : stored;
}

}  // namespace stepgate

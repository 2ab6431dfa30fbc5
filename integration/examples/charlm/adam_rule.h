// Adam's arithmetic for one element: one text for the host and for the device, so that the two give the
// same bits.
//
// IEEE operations in this order and no contraction: the host is compiled with -ffp-contract=off, device
// code with -fmad=false; division and square root round correctly on both. Host and device.
// Thread: any. Order, lock: none. Ownership: the caller's values.
#pragma once

#include <cmath>

#if defined(__CUDACC__)
#define CHARLM_HOST_DEVICE __host__ __device__
#else
#define CHARLM_HOST_DEVICE
#endif

namespace stepgate::charlm {

inline constexpr double kAdamBeta1 = 0.9;
inline constexpr double kAdamBeta2 = 0.99;
inline constexpr float kAdamEpsilon = 1e-8f;

// What depends on the number of updates alone.
struct AdamRates {
  float step_size = 0;
  float second_correction = 1;
};

// m, v: the two moments. g: the gradient, ready for the optimizer.
CHARLM_HOST_DEVICE inline void adam_element(float g, const AdamRates& rates, float& m, float& v,
                                            float& master) {
  constexpr auto kKeep1 = static_cast<float>(kAdamBeta1);
  constexpr auto kKeep2 = static_cast<float>(kAdamBeta2);
  constexpr auto kTake1 = static_cast<float>(1 - kAdamBeta1);
  constexpr auto kTake2 = static_cast<float>(1 - kAdamBeta2);
  m = kKeep1 * m + kTake1 * g;
  v = kKeep2 * v + kTake2 * g * g;
  master -= rates.step_size * m / (std::sqrt(v * rates.second_correction) + kAdamEpsilon);
}

// What the reduced gradients are divided by: grad_scale is the gate's (scale / clip), shares the number of
// gradients that the reduction has added up without dividing.
CHARLM_HOST_DEVICE inline float adam_divisor(float grad_scale, double shares) {
  return static_cast<float>(grad_scale * shares);
}

}  // namespace stepgate::charlm

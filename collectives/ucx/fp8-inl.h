// fp8 e4m3 and e5m2 to fp32 and back, without branches so that loops over them vectorise. To nearest even;
// what is too large, infinity included, becomes the largest finite value, as NVIDIA's conversions and so
// NCCL's reductions have it; NaN becomes one NaN. They rely on subnormals: MXCSR must not flush (see
// reduce.cc). Compiled once per instruction set. Pure; any thread.
#if defined(STEPGATE_TRANSPORT_FP8_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STEPGATE_TRANSPORT_FP8_INL_H
#undef STEPGATE_TRANSPORT_FP8_INL_H
#else
#define STEPGATE_TRANSPORT_FP8_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "collectives/ucx/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stepgate::transport::HWY_NAMESPACE {

// What the two formats differ in, all as bits of an fp32.
struct Fp8Layout {
  uint32_t dropped;  // mantissa bits that fp8 has no room for
  uint32_t rebias;   // the difference of the exponents' biases, in place
  uint32_t magic;    // a power of two whose last place is fp8's smallest subnormal
  uint32_t largest;  // as fp8
  uint32_t nan;      // as fp8
};
inline constexpr Fp8Layout kE4m3 = {20, 120u << 23, 0x46800000u, 0x7e, 0x7f};
inline constexpr Fp8Layout kE5m2 = {21, 112u << 23, 0x43000000u, 0x7b, 0x7e};

inline uint8_t float_to_fp8(float f, const Fp8Layout& to) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t smallest_normal = to.rebias + (1u << 23);
  const uint32_t half = (1u << (to.dropped - 1)) - 1u;
  const uint32_t normal = (magnitude - to.rebias + half + ((magnitude >> to.dropped) & 1u)) >> to.dropped;
  const float small = std::bit_cast<float>(magnitude < smallest_normal ? magnitude : 0u);
  const uint32_t subnormal = std::bit_cast<uint32_t>(small + std::bit_cast<float>(to.magic)) - to.magic;
  const uint32_t rounded = std::min(magnitude < smallest_normal ? subnormal : normal, to.largest);
  const bool is_nan = magnitude > 0x7f800000u;
  const uint32_t sign = bits >> 24 & 0x80u;
  return static_cast<uint8_t>(is_nan ? to.nan : rounded | sign);
}

inline float e4m3_to_float(uint8_t b) {
  const uint32_t sign = (b & 0x80u) << 24;
  const uint32_t magnitude = b & 0x7fu;
  // Multiplying by 2^120 moves the exponent's bias and turns fp8 subnormals into normal numbers.
  const float scaled = std::bit_cast<float>(magnitude << 20) * 0x1p120f;
  const uint32_t special = magnitude == 0x7fu ? 0x7fc00000u : 0u;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled) | special);
}

// The upper half of an fp16.
inline float e5m2_to_float(uint8_t b) {
  return half_to_float(static_cast<uint16_t>(b << 8));
}

}  // namespace stepgate::transport::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard

// fp16 and bf16 to fp32 and back, without branches so that loops over them vectorise; round to nearest
// even, NaN to one quiet NaN. They rely on subnormals: MXCSR must not flush (see reduce.cc). Compiled once
// per instruction set, as Highway's per-target headers are. Pure; any thread.
#if defined(STEPGATE_TRANSPORT_HALF_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STEPGATE_TRANSPORT_HALF_INL_H
#undef STEPGATE_TRANSPORT_HALF_INL_H
#else
#define STEPGATE_TRANSPORT_HALF_INL_H
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace stepgate::transport::HWY_NAMESPACE {

inline float half_to_float(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16;
  const uint32_t rest = (h & 0x7fffu) << 13;
  // Multiplying by 2^112 moves the exponent's bias and turns fp16 subnormals into normal numbers.
  const float scaled = std::bit_cast<float>(rest) * 0x1p112f;
  const uint32_t special = rest >= 0x0f800000u ? 0x7f800000u : 0u;  // infinity and NaN
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled) | special);
}

inline uint16_t float_to_half(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Adding 0.5 lets the adder round a subnormal result at the right place.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude < 0x38800000u ? magnitude : 0u) + 0.5f) -
      0x3f000000u;
  uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  result = magnitude >= 0x47800000u ? 0x7c00u : result;  // 2^16 and above, infinity
  result = magnitude > 0x7f800000u ? 0x7e00u : result;
  const uint32_t sign = magnitude > 0x7f800000u ? 0u : bits >> 16 & 0x8000u;
  return static_cast<uint16_t>(result | sign);
}

inline float bfloat_to_float(uint16_t b) {
  return std::bit_cast<float>(uint32_t{b} << 16);
}

inline uint16_t float_to_bfloat(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

}  // namespace stepgate::transport::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard

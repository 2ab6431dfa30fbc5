// FP16 and BF16 in device code: the same values and bits as half.h, which only the host can compile.
//
// Thread: any. Host and device. No branch on a format's special values but where the bits demand it.
#pragma once

#include <cstdint>
#include <cstring>

#include "integration/examples/charlm/adam_rule.h"

namespace stepgate::charlm {

CHARLM_HOST_DEVICE inline float float_of_bits(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

CHARLM_HOST_DEVICE inline std::uint32_t bits_of_float(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

CHARLM_HOST_DEVICE inline float widen_fp16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) return float_of_bits(sign | 0x7f800000u | (magnitude - 0x7c00u) << 13);
  // As an fp32 pattern the exponent is 112 too small; the product is exact, of subnormals too.
  return float_of_bits(sign | bits_of_float(float_of_bits(magnitude << 13) * 0x1p112f));
}

CHARLM_HOST_DEVICE inline float widen_bf16(std::uint16_t bits) {
  return float_of_bits(static_cast<std::uint32_t>(bits) << 16);
}

// To nearest even.
CHARLM_HOST_DEVICE inline std::uint16_t narrow_fp16(float x) {
  const std::uint32_t bits = bits_of_float(x);
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65520 and more
  if (magnitude < 0x38800000u) {
    // In [0.5, 1) fp32 is spaced by 2^-24, fp16's smallest step: the addition rounds, the bits count.
    return static_cast<std::uint16_t>(sign | (bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<std::uint16_t>(sign | (rounded - 0x38000000u) >> 13);
}

}  // namespace stepgate::charlm

// FP16 and BF16 as the example needs them: rounding of fp32 values, and packing.
//
//   round_to_half(70000.0f) == inf, round_to_half(1e-8f) == 0, both round to nearest even
//
// Thread: any. Order, lock: none. Ownership: nothing is kept.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace stepgate::charlm {

// The fp32 value of x rounded to fp16: beyond 65504 to inf, below 2^-14 to a multiple of 2^-24.
// No branch, so that loops over it become vector code.
inline float round_to_half(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits & 0x80000000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u)) & ~0x1fffu;
  // In [0.5, 1) fp32 is spaced by 2^-24, so the addition itself rounds to that grid.
  const float grid = (std::bit_cast<float>(magnitude) + 0.5f) - 0.5f;
  const std::uint32_t small = std::bit_cast<std::uint32_t>(grid);
  std::uint32_t rounded = magnitude < 0x38800000u ? small : normal;
  rounded = rounded >= 0x47800000u ? 0x7f800000u : rounded;   // 65536 and more
  rounded = magnitude > 0x7f800000u ? 0x7fc00000u : rounded;  // NaN stays NaN
  return std::bit_cast<float>(sign | rounded);
}

// x holds an fp16 value (or is rounded to one first).
std::uint16_t half_bits(float x);
float half_value(std::uint16_t bits);

// Rounds to nearest even.
std::uint16_t bfloat_bits(float x);
float bfloat_value(std::uint16_t bits);

void round_all_to_half(float* data, std::size_t count);

}  // namespace stepgate::charlm

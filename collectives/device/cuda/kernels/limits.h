// scan_limits(): the thresholds of a scan for any stored type against any compute type, as magnitudes
// of the stored type, so that kernels compare integers and never values.
//
//   ScanLimits l = scan_limits(ElementType::kFp32, ElementType::kFp16);
//
// Thread: any; constexpr, host code.
#pragma once

#include <cstdint>

#include "collectives/core/element_type.h"
#include "collectives/core/grad_stats.h"
#include "collectives/device/cuda/kernels/arguments.h"

namespace stepgate::cuda {

// Exponent and mantissa of a stored type, and its first magnitudes that are no finite number.
struct FloatFormat {
  int mantissa_bits;
  int bias;
  std::uint64_t infinity;
  std::uint64_t nan_from;
};

constexpr FloatFormat float_format(ElementType t) {
  switch (t) {
    case ElementType::kFp32: return {23, 127, 0x7f800000u, 0x7f800001u};
    case ElementType::kFp16: return {10, 15, 0x7c00u, 0x7c01u};
    case ElementType::kBf16: return {7, 127, 0x7f80u, 0x7f81u};
    case ElementType::kFp64: return {52, 1023, 0x7ff0000000000000u, 0x7ff0000000000001u};
    case ElementType::kFp8E4M3: return {3, 7, 0x7fu, 0x7fu};  // no inf
    case ElementType::kFp8E5M2: return {2, 15, 0x7cu, 0x7du};
  }
  return {};
}

namespace limits_detail {

// x * 2^exponent. Halves and doubles are exact as long as the result is a normal or exact subnormal.
constexpr double scale_by_power(double x, int exponent) {
  for (; exponent > 0; --exponent) x *= 2.0;
  for (; exponent < 0; ++exponent) x *= 0.5;
  return x;
}

}  // namespace limits_detail

// The value of a finite magnitude.
constexpr double magnitude_value(ElementType t, std::uint64_t magnitude) {
  const FloatFormat f = float_format(t);
  const auto exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  const std::uint64_t one = std::uint64_t{1} << f.mantissa_bits;
  const std::uint64_t mantissa = (magnitude & (one - 1)) + (exponent != 0 ? one : 0);
  const int power = (exponent != 0 ? exponent : 1) - f.bias - f.mantissa_bits;
  return limits_detail::scale_by_power(static_cast<double>(mantissa), power);
}

// The lowest magnitude whose value is >= limit (or > limit), at most infinity.
constexpr std::uint64_t lowest_magnitude(ElementType t, double limit, bool above) {
  std::uint64_t low = 0;
  std::uint64_t high = float_format(t).infinity;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    const double value = magnitude_value(t, middle);
    if (above ? value > limit : value >= limit) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

constexpr ScanLimits scan_limits(ElementType stored, ElementType compute) {
  const FloatFormat f = float_format(stored);
  const bool always_fp64 = stored == ElementType::kFp64;
  ScanLimits l;
  l.infinity = f.infinity;
  l.nan_from = f.nan_from;
  l.normal_from = lowest_magnitude(stored, smallest_normal(compute), false);
  l.over_from = lowest_magnitude(stored, largest_finite(compute), true);
  l.squares_from = always_fp64 ? 0 : lowest_magnitude(stored, kFp32SquaresMin, false);
  l.squares_above = always_fp64 ? f.infinity : lowest_magnitude(stored, kFp32SquaresMax, true);
  return l;
}

}  // namespace stepgate::cuda

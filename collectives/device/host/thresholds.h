// Every limit of a scan as a magnitude (bits without the sign) of the stored type, so that the scan
// compares integers and never values: any stored type against any compute type.
//
// Thread: any; compile-time data.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "collectives/core/element_type.h"
#include "collectives/core/grad_stats.h"
#include "collectives/device/host/float_bits.h"

namespace stepgate::device::host {

struct Thresholds {
  std::uint64_t infinity = 0;       // inf itself; NaN lies above
  std::uint64_t normal_from = 0;    // 0 < m < this: subnormal of the compute type
  std::uint64_t over_from = 0;      // this <= m < infinity: overrange of the compute type
  std::uint64_t squares_from = 0;   // a unit whose maximum is in [squares_from, squares_above) sums
  std::uint64_t squares_above = 0;  // its squares in fp32 columns; all others, zero excepted, in fp64
};

namespace threshold_detail {

// The lowest magnitude whose value is >= limit (or > limit), at most infinity.
template <ElementType T>
constexpr std::uint64_t lowest_magnitude(double limit, bool above) {
  std::uint64_t low = 0;
  std::uint64_t high = Format<T>::kInfinity;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    const double value = Format<T>::widen(static_cast<typename Format<T>::Bits>(middle));
    if (above ? value > limit : value >= limit) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

template <ElementType T>
constexpr Thresholds make(ElementType compute) {
  Thresholds t;
  t.infinity = Format<T>::kInfinity;
  t.normal_from = lowest_magnitude<T>(smallest_normal(compute), false);
  t.over_from = lowest_magnitude<T>(largest_finite(compute), true);
  const bool always_fp64 = T == ElementType::kFp64;
  t.squares_from = always_fp64 ? 0 : lowest_magnitude<T>(kFp32SquaresMin, false);
  t.squares_above = always_fp64 ? t.infinity : lowest_magnitude<T>(kFp32SquaresMax, true);
  return t;
}

template <ElementType T>
constexpr std::array<Thresholds, kElementTypeCount> make_row() {
  std::array<Thresholds, kElementTypeCount> row;
  for (std::uint32_t c = 0; c < kElementTypeCount; ++c) row[c] = make<T>(static_cast<ElementType>(c));
  return row;
}

template <ElementType T>
inline constexpr std::array<Thresholds, kElementTypeCount> kRow = make_row<T>();

}  // namespace threshold_detail

template <ElementType T>
constexpr const Thresholds& thresholds(ElementType compute) {
  return threshold_detail::kRow<T>[static_cast<std::uint32_t>(compute)];
}

}  // namespace stepgate::device::host

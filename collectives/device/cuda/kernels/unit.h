// One unit (8,192 elements at most) in one warp: the first look that every unit gets, and the second
// one for the few whose first shows an inf, a NaN, or magnitudes that fp32 squares cannot hold.
//
// Thread: all lanes of one warp, converged. Device code.
#pragma once

#include <cstdint>

#include "collectives/device/cuda/kernels/formats.h"
#include "collectives/device/cuda/kernels/tuning.h"
#include "collectives/device/cuda/kernels/warp.h"

namespace stepgate::cuda {

inline constexpr std::uint32_t kLaneColumns = kUnitColumns / kWarpLanes;

template <class F>
struct Unit {
  const typename F::Element* data;
  std::uint32_t count;
  bool aligned;  // data lies on a vector's boundary

  STEPGATE_DEVICE bool full() const { return aligned && count == kUnitElements; }
  STEPGATE_DEVICE std::uint32_t rows() const { return (count + kUnitColumns - 1) / kUnitColumns; }
};

// This lane's vector q of a row, with zeros for what lies behind the unit's end: zeros change neither
// sums nor counts of nonzero elements.
template <class F>
STEPGATE_DEVICE typename F::Vector load_part(const Unit<F>& unit, std::uint32_t row, std::uint32_t q) {
  const std::uint32_t at = row * kUnitColumns + (q * kWarpLanes + lane_index()) * F::kPerVector;
  if (unit.aligned && at + F::kPerVector <= unit.count) {
    return load_once(reinterpret_cast<const typename F::Vector*>(unit.data + at));
  }
  constexpr std::uint32_t kBits = 8 * sizeof(typename F::Element);
  std::uint64_t half[2] = {0, 0};
#pragma unroll
  for (std::uint32_t j = 0; j < F::kPerVector; ++j) {
    const std::uint64_t bits = at + j < unit.count ? unit.data[at + j] : 0;
    half[j * kBits / 64] |= bits << (j * kBits % 64);
  }
  typename F::Vector v;
#pragma unroll
  for (std::uint32_t i = 0; i < sizeof v / 4; ++i)
    v.w[i] = static_cast<std::uint32_t>(half[i / 2] >> (32 * (i % 2)));
  return v;
}

// The pairwise tree over the unit's 256 columns; right in lane 0.
template <class F, class Column>
STEPGATE_DEVICE double fold_columns(const Column* c) {
  double parts[F::kVectorsPerRow];
#pragma unroll
  for (std::uint32_t q = 0; q < F::kVectorsPerRow; ++q) {
    double v[F::kPerVector];
#pragma unroll
    for (std::uint32_t j = 0; j < F::kPerVector; ++j) v[j] = c[q * F::kPerVector + j];
#pragma unroll
    for (std::uint32_t n = F::kPerVector / 2; n != 0; n /= 2) {
#pragma unroll
      for (std::uint32_t i = 0; i < n; ++i) v[i] = v[2 * i] + v[2 * i + 1];
    }
    parts[q] = fold_lanes(v[0], kWarpLanes);
  }
#pragma unroll
  for (std::uint32_t n = F::kVectorsPerRow / 2; n != 0; n /= 2) {
#pragma unroll
    for (std::uint32_t i = 0; i < n; ++i) parts[i] = parts[2 * i] + parts[2 * i + 1];
  }
  return parts[0];
}

// The hot loop: a full, aligned unit.
template <class F, class Adder>
STEPGATE_DEVICE void look_full(const Unit<F>& unit, Adder adder, typename F::Peak& peak, Counts& counts,
                               typename F::Column* c) {
  constexpr std::uint32_t kLoads = kScanTuning<sizeof(typename F::Element)>.loads_in_flight;
  constexpr std::uint32_t kVectors = kUnitElements / kWarpLanes / F::kPerVector;
  static_assert(kLoads % F::kVectorsPerRow == 0 && kVectors % kLoads == 0, "whole rows in flight");
  const auto* p = reinterpret_cast<const typename F::Vector*>(unit.data) + lane_index();
#pragma unroll 1
  for (std::uint32_t i = 0; i < kVectors; i += kLoads) {
    typename F::Vector v[kLoads];
#pragma unroll
    for (std::uint32_t k = 0; k < kLoads; ++k) v[k] = load_once(p + k * kWarpLanes);
#pragma unroll
    for (std::uint32_t k = 0; k < kLoads; ++k) {
      F::add(v[k], adder, peak, counts, c + k % F::kVectorsPerRow * F::kPerVector);
    }
    p += kLoads * kWarpLanes;
  }
}

// The same for a short or unaligned unit.
template <class F, class Adder>
STEPGATE_DEVICE void look_part(const Unit<F>& unit, Adder adder, typename F::Peak& peak, Counts& counts,
                               typename F::Column* c) {
#pragma unroll 1
  for (std::uint32_t row = 0; row < unit.rows(); ++row) {
#pragma unroll
    for (std::uint32_t q = 0; q < F::kVectorsPerRow; ++q) {
      F::add(load_part(unit, row, q), adder, peak, counts, c + q * F::kPerVector);
    }
  }
}

template <class F>
struct UnitLook {
  double squares;                 // lane 0
  typename F::Magnitude maximum;  // inf and NaN included
};

template <class F, class Adder>
STEPGATE_DEVICE UnitLook<F> look(const Unit<F>& unit, Adder adder, Counts& counts) {
  typename F::Column c[kLaneColumns] = {};
  typename F::Peak peak = 0;
  if (unit.full()) {
    look_full<F>(unit, adder, peak, counts, c);
  } else {
    look_part<F>(unit, adder, peak, counts, c);
  }
  return {fold_columns<F>(c) * F::kSquareScale, warp_max(F::magnitude_of_peak(peak))};
}

// What the first look cannot tell apart. Squares in fp64 columns.
template <class F>
struct UnitDetail {
  double squares = 0;                 // finite elements only; lane 0
  typename F::Magnitude maximum = 0;  // finite elements only
  std::uint32_t inf = 0;
  std::uint32_t nan = 0;
  std::uint32_t overranges = 0;
};

template <class F>
STEPGATE_DEVICE void examine(typename F::Magnitude m, const ScanLimits& limits, UnitDetail<F>& seen,
                             double& c) {
  if (m >= limits.infinity) {
    ++(m >= limits.nan_from ? seen.nan : seen.inf);
    return;
  }
  seen.overranges += m >= limits.over_from;
  seen.maximum = larger(seen.maximum, m);
  const double x = F::value(m);
  c = multiply_add(x, x, c);
}

template <class F>
STEPGATE_DEVICE UnitDetail<F> detail(const Unit<F>& unit, const ScanLimits& limits) {
  UnitDetail<F> seen;
  double c[kLaneColumns] = {};
#pragma unroll 1
  for (std::uint32_t row = 0; row < unit.rows(); ++row) {
#pragma unroll
    for (std::uint32_t q = 0; q < F::kVectorsPerRow; ++q) {
      const auto v = load_part(unit, row, q);
#pragma unroll
      for (std::uint32_t j = 0; j < F::kPerVector; ++j) {
        examine<F>(F::magnitude(v, static_cast<int>(j)), limits, seen, c[q * F::kPerVector + j]);
      }
    }
  }
  seen.squares = fold_columns<F>(c);
  seen.maximum = warp_max(seen.maximum);
  seen.inf = warp_sum(seen.inf);
  seen.nan = warp_sum(seen.nan);
  seen.overranges = warp_sum(seen.overranges);
  return seen;
}

}  // namespace stepgate::cuda

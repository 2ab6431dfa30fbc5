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
inline constexpr std::uint32_t kLoadsInFlight =
    F::kInPlace ? kUnscaleTuning<sizeof(typename F::Element)>.loads_in_flight
                : kScanTuning<sizeof(typename F::Element)>.loads_in_flight;

template <class F>
struct Unit {
  const typename F::Element* data;
  std::uint32_t count;
  std::uint32_t head;  // elements before the first boundary of a vector

  STEPGATE_DEVICE bool full() const { return count == kUnitElements; }
  STEPGATE_DEVICE std::uint32_t rows() const { return (count + kUnitColumns - 1) / kUnitColumns; }
};

// A loop within a unit ends where this does: cheaper than counting, or than comparing 64 bits.
STEPGATE_DEVICE std::uint32_t low_word(const void* p) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(p));
}

template <class F>
STEPGATE_DEVICE std::uint32_t head_of(const typename F::Element* data) {
  const std::uintptr_t over = reinterpret_cast<std::uintptr_t>(data) % sizeof(typename F::Vector);
  return over == 0 ? 0 : static_cast<std::uint32_t>((sizeof(typename F::Vector) - over) / sizeof *data);
}

// A vector's worth of elements from `at` on, one by one, with zeros for what lies outside of the unit:
// zeros change neither sums nor counts of nonzero elements.
template <class F>
STEPGATE_DEVICE typename F::Vector load_elements(const Unit<F>& unit, std::int32_t at) {
  constexpr std::uint32_t kBits = 8 * sizeof(typename F::Element);
  std::uint64_t half[2] = {0, 0};
#pragma unroll
  for (std::uint32_t j = 0; j < F::kPerVector; ++j) {
    const std::uint32_t i = static_cast<std::uint32_t>(at) + j;  // wraps to far outside when negative
    const std::uint64_t bits = i < unit.count ? unit.data[i] : 0;
    half[j * kBits / 64] |= bits << (j * kBits % 64);
  }
  typename F::Vector v;
#pragma unroll
  for (std::uint32_t i = 0; i < sizeof v / 4; ++i)
    v.w[i] = static_cast<std::uint32_t>(half[i / 2] >> (32 * (i % 2)));
  return v;
}

// This lane's vector q of a row.
template <class F>
STEPGATE_DEVICE typename F::Vector load_part(const Unit<F>& unit, std::uint32_t row, std::uint32_t q) {
  const std::uint32_t at = row * kUnitColumns + (q * kWarpLanes + lane_index()) * F::kPerVector;
  if (unit.head == 0 && at + F::kPerVector <= unit.count) {
    return F::load(reinterpret_cast<const typename F::Vector*>(unit.data + at));
  }
  return load_elements(unit, static_cast<std::int32_t>(at));
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

// Moves every column one place on: the last one of a vector to the next lane, lane 31's to lane 0 of
// the next vector.
template <class F>
STEPGATE_DEVICE void rotate_columns(typename F::Column* c) {
  constexpr std::uint32_t kLast = F::kPerVector - 1;
  typename F::Column in[F::kVectorsPerRow];
#pragma unroll
  for (std::uint32_t q = 0; q < F::kVectorsPerRow; ++q) {
    const std::uint32_t before = (q + F::kVectorsPerRow - 1) % F::kVectorsPerRow;
    const bool wraps = lane_index() == kWarpLanes - 1;
    const auto out = wraps ? c[before * F::kPerVector + kLast] : c[q * F::kPerVector + kLast];
    in[q] = __shfl_sync(kAllLanes, out, (lane_index() + kWarpLanes - 1) % kWarpLanes);
  }
#pragma unroll
  for (std::uint32_t q = 0; q < F::kVectorsPerRow; ++q) {
#pragma unroll
    for (std::uint32_t j = kLast; j != 0; --j) c[q * F::kPerVector + j] = c[q * F::kPerVector + j - 1];
    c[q * F::kPerVector] = in[q];
  }
}

// What look_full leaves over of a unit that begins `head` elements before a boundary: the elements
// before it, the last `rows` rows of vectors from `p` on, of which lane 31's last one would reach into
// the next unit, and the columns' way back.
template <class F, class Adder>
STEPGATE_DEVICE void look_ends(const Unit<F>& unit, const typename F::Vector* p, std::uint32_t rows,
                               Adder adder, typename F::Peak& peak, Counts& counts, typename F::Column* c) {
  constexpr auto kStep = static_cast<std::int32_t>(F::kPerVector);
  const auto head = static_cast<std::int32_t>(unit.head);
  const bool split = lane_index() == kWarpLanes - 1;
#pragma unroll 1
  for (std::uint32_t row = 0; row < rows; ++row) {
#pragma unroll
    for (std::uint32_t q = 0; q < F::kVectorsPerRow; ++q) {
      const bool end = split && row + 1 == rows && q + 1 == F::kVectorsPerRow;
      const auto v = end ? load_elements(unit, static_cast<std::int32_t>(kUnitElements) - kStep + head)
                         : F::load(p + q * kWarpLanes);
      F::add(v, adder, peak, counts, c + q * F::kPerVector);
    }
    p += F::kVectorsPerRow * kWarpLanes;
  }
#pragma unroll 1
  for (std::int32_t i = 0; i < head; ++i) rotate_columns<F>(c);
}

// The hot loop: a full unit. One that begins between two boundaries is read in vectors all the same:
// they hold the columns `head` places on, which are moved back in the end. The elements before the
// first boundary are the first, and those behind the last one the last, that lane 31 adds to columns
// of its own: every column still gets its elements in their order.
template <class F, class Adder>
STEPGATE_DEVICE void look_full(const Unit<F>& unit, Adder adder, typename F::Peak& peak, Counts& counts,
                               typename F::Column* c) {
  constexpr std::uint32_t kLoads = kLoadsInFlight<F>;
  constexpr std::uint32_t kVectors = kUnitElements / kWarpLanes / F::kPerVector;
  static_assert(kLoads % F::kVectorsPerRow == 0 && kVectors % kLoads == 0, "whole rows in flight");
  if (unit.head != 0 && lane_index() == kWarpLanes - 1) {
    const std::int32_t at = static_cast<std::int32_t>(unit.head) - static_cast<std::int32_t>(F::kPerVector);
    F::add(load_elements(unit, at), adder, peak, counts, c + kLaneColumns - F::kPerVector);
  }
  const auto* p = reinterpret_cast<const typename F::Vector*>(unit.data + unit.head) + lane_index();
  const std::uint32_t vectors = unit.head == 0 ? kVectors : kVectors - kLoads;
  const std::uint32_t end = low_word(p + vectors * kWarpLanes);
#pragma unroll 1
  for (; low_word(p) != end; p += kLoads * kWarpLanes) {
    typename F::Vector v[kLoads];
#pragma unroll
    for (std::uint32_t k = 0; k < kLoads; ++k) v[k] = F::load(p + k * kWarpLanes);
#pragma unroll
    for (std::uint32_t k = 0; k < kLoads; ++k) {
      F::add(v[k], adder, peak, counts, c + k % F::kVectorsPerRow * F::kPerVector);
    }
  }
  if (unit.head != 0) look_ends(unit, p, kLoads / F::kVectorsPerRow, adder, peak, counts, c);
}

// The same for a short unit.
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

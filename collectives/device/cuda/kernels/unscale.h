// The in-place scan: a unit is counted as read_only kernels count it, and then, while it is still near
// (first or second level cache), multiplied. It is read a second time for that: a unit whose first look
// shows that it needs a second must still be there, as it was.
//
// Thread: all lanes of one warp, converged; nobody else touches the unit. Device code.
#pragma once

#include <cstdint>

#include "collectives/device/cuda/kernels/apply.h"
#include "collectives/device/cuda/kernels/formats.h"
#include "collectives/device/cuda/kernels/tuning.h"
#include "collectives/device/cuda/kernels/unit.h"
#include "collectives/device/cuda/kernels/warp.h"

namespace stepgate::cuda {

// A format whose elements are written too: plain loads, and products of Op (apply.h).
template <class F, class Op>
struct InPlace : F {
  static constexpr bool kInPlace = true;
  using Vector = typename F::Vector;
  using Element = typename F::Element;

  static STEPGATE_DEVICE Vector load(const Vector* p) { return load_again(p); }
  static STEPGATE_DEVICE Element product(Element x, float m) { return Op::product(x, m); }
  static STEPGATE_DEVICE Vector product(const Vector& v, float m) {
    Vector r;
    constexpr std::uint32_t kStep = sizeof(Element) == 8 ? 2 : 1;  // words
#pragma unroll
    for (std::uint32_t i = 0; i < 4; i += kStep) multiply(v.w + i, m, r.w + i);
    return r;
  }

 private:
  static STEPGATE_DEVICE void multiply(const std::uint32_t* from, float m, std::uint32_t* to) {
    if constexpr (sizeof(Element) == 2) {
      *to = Op::product_pair(*from, m);
    } else if constexpr (sizeof(Element) == 4) {
      *to = Op::product(*from, m);
    } else {
      const Element x = Op::product(static_cast<Element>(from[1]) << 32 | from[0], m);
      to[0] = static_cast<std::uint32_t>(x);
      to[1] = static_cast<std::uint32_t>(x >> 32);
    }
  }
};

// Infinities among products.
template <class F>
STEPGATE_DEVICE std::uint32_t infinities(const typename F::Vector& v, const ScanLimits& limits) {
  std::uint32_t n = 0;
#pragma unroll
  for (std::uint32_t j = 0; j < F::kPerVector; ++j) {
    n += F::magnitude(v, static_cast<int>(j)) == limits.infinity;
  }
  return n;
}

template <class F>
STEPGATE_DEVICE typename F::Magnitude magnitude_of(typename F::Element x) {
  constexpr std::uint64_t kMask = ~std::uint64_t{0} >> (65 - 8 * sizeof x);
  return static_cast<typename F::Magnitude>(x & kMask);
}

// Elements of a unit outside of its whole vectors: fewer than there are lanes.
template <class F>
STEPGATE_DEVICE std::uint32_t unscale_ends(typename F::Element* data, std::uint32_t head,
                                           std::uint32_t vectors, std::uint32_t count,
                                           const ScanLimits& limits, float m) {
  std::uint32_t i = lane_index();
  if (i >= head) i += vectors * F::kPerVector;
  if (i >= count) return 0;
  const auto x = F::product(data[i], m);
  data[i] = x;
  return magnitude_of<F>(x) == limits.infinity;
}

// Multiplies a unit; counts infinite products where they are asked for. `m` in all lanes.
template <class F, bool kCount>
STEPGATE_DEVICE std::uint32_t unscale_all(const Unit<F>& unit, const ScanLimits& limits, float m) {
  using Vector = typename F::Vector;
  constexpr std::uint32_t kLoads = kCount ? 1 : kLoadsInFlight<F>;
  auto* data = const_cast<typename F::Element*>(unit.data);
  const std::uint32_t head = unit.head < unit.count ? unit.head : unit.count;
  const std::uint32_t vectors = (unit.count - head) / F::kPerVector;
  std::uint32_t inf = unscale_ends<F>(data, head, vectors, unit.count, limits, m);
  auto* p = reinterpret_cast<Vector*>(data + head) + lane_index();
  const auto* const end = reinterpret_cast<Vector*>(data + head) + vectors;
  const std::uint32_t turns = vectors / (kLoads * kWarpLanes);
  const std::uint32_t turns_end = low_word(p + turns * kLoads * kWarpLanes);
#pragma unroll 1
  for (; low_word(p) != turns_end; p += kLoads * kWarpLanes) {
    Vector v[kLoads];
#pragma unroll
    for (std::uint32_t k = 0; k < kLoads; ++k) v[k] = F::load(p + k * kWarpLanes);
#pragma unroll
    for (std::uint32_t k = 0; k < kLoads; ++k) {
      v[k] = F::product(v[k], m);
      if constexpr (kCount) inf += infinities<F>(v[k], limits);
      p[k * kWarpLanes] = v[k];
    }
  }
#pragma unroll 1
  for (; p < end; p += kWarpLanes) {
    const Vector v = F::product(F::load(p), m);
    if constexpr (kCount) inf += infinities<F>(v, limits);
    *p = v;
  }
  return kCount ? warp_sum(inf) : 0;
}

// Multiplies a unit whose largest magnitude, inf and NaN included, is `maximum`, and which holds `inf`
// infinities. What comes back is how many it holds then. Products grow with their elements: where the
// largest is finite, all are, and nobody counts.
template <class F>
STEPGATE_DEVICE std::uint32_t unscale_unit(const Unit<F>& unit, const ScanLimits& limits,
                                           typename F::Magnitude maximum, std::uint32_t inf, float m) {
  if (m == 1.0f) return inf;
  __syncwarp();  // every lane has read its part, which another one may write
  const bool finite =
      maximum < limits.infinity &&
      magnitude_of<F>(F::product(static_cast<typename F::Element>(maximum), m)) < limits.infinity;
  return finite ? unscale_all<F, false>(unit, limits, m) : unscale_all<F, true>(unit, limits, m);
}

}  // namespace stepgate::cuda

// What the lanes of a warp do together. Every function is called by all 32 lanes.
//
// Thread: all lanes of one warp, converged. Device code.
#pragma once

#include <cstdint>

#include "collectives/core/grad_stats.h"
#include "collectives/device/cuda/kernels/arguments.h"
#include "collectives/device/cuda/kernels/intrinsics.h"

namespace stepgate::cuda {

inline constexpr std::uint32_t kAllLanes = 0xffffffffu;

STEPGATE_DEVICE std::uint32_t lane_index() {
  return threadIdx.x % kWarpLanes;
}
STEPGATE_DEVICE std::uint32_t warp_index() {
  return threadIdx.x / kWarpLanes;
}

// The pairwise tree over the first n lanes' values by index; an odd last one moves up unchanged. The
// sum is right in lane 0. Same bits as PairwiseSum over the same values.
STEPGATE_DEVICE double fold_lanes(double v, std::uint32_t n) {
  const std::uint32_t lane = lane_index();
#pragma unroll
  for (std::uint32_t d = 1; d < kWarpLanes; d *= 2) {
    const double right = __shfl_down_sync(kAllLanes, v, d);
    if (lane + d < n) v = v + right;
  }
  return v;
}

// In every lane.
STEPGATE_DEVICE std::uint32_t warp_sum(std::uint32_t v) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  return __reduce_add_sync(kAllLanes, v);
#else
#pragma unroll
  for (std::uint32_t d = 1; d < kWarpLanes; d *= 2) v += __shfl_xor_sync(kAllLanes, v, d);
  return v;
#endif
}
STEPGATE_DEVICE std::uint32_t warp_max(std::uint32_t v) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kAllLanes, v);
#else
#pragma unroll
  for (std::uint32_t d = 1; d < kWarpLanes; d *= 2) v = larger(v, __shfl_xor_sync(kAllLanes, v, d));
  return v;
#endif
}
STEPGATE_DEVICE std::uint64_t warp_sum(std::uint64_t v) {
#pragma unroll
  for (std::uint32_t d = 1; d < kWarpLanes; d *= 2) v += __shfl_xor_sync(kAllLanes, v, d);
  return v;
}
STEPGATE_DEVICE std::uint64_t warp_max(std::uint64_t v) {
#pragma unroll
  for (std::uint32_t d = 1; d < kWarpLanes; d *= 2) v = larger(v, __shfl_xor_sync(kAllLanes, v, d));
  return v;
}

// Every lane's counts and maximum together; sum_squares stays as it is.
STEPGATE_DEVICE void combine_counts(GradStats& s) {
  // Magnitudes of non-negative doubles order like their bits.
  s.abs_max = double_from_bits(warp_max(bits_of_double(s.abs_max)));
  s.elements = warp_sum(s.elements);
  s.inf = warp_sum(s.inf);
  s.nan = warp_sum(s.nan);
  s.zeros = warp_sum(s.zeros);
  s.subnormals = warp_sum(s.subnormals);
  s.overranges = warp_sum(s.overranges);
}

// True, in all lanes, for the last of `members` warps that come here with this ticket. What lane 0 of
// each wrote before is then visible to all lanes of the last one. The ticket is zero again afterwards.
STEPGATE_DEVICE bool arrive_last(std::uint32_t* ticket, std::uint32_t members) {
  std::uint32_t last = 0;
  if (lane_index() == 0) {
#if !defined(STEPGATE_MUTATE_NO_THREADFENCE)
    __threadfence();
#endif
    last = atomicInc(ticket, members - 1) == members - 1;
  }
  last = __shfl_sync(kAllLanes, last, 0);
  if (last != 0) __threadfence();
  return last != 0;
}

}  // namespace stepgate::cuda

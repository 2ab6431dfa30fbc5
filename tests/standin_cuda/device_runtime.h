// CUDA's words for device code, meant by the CPU: included before kernel sources, it lets g++ compile
// them as they are. Only what this project's kernels use.
//
// __shared__ is one object per OS thread, which is one per block (grid.h). All lanes of a warp take
// part in every warp operation, whatever the mask says.
//
// Thread: code that run_grid runs.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/standin_cuda/grid.h"

#define __global__
#define __device__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static thread_local

#define threadIdx (::stepgate::standin::identity().thread)
#define blockIdx (::stepgate::standin::identity().block)
#define blockDim (::stepgate::standin::identity().block_size)
#define gridDim (::stepgate::standin::identity().grid_size)

inline void __syncthreads() {
  stepgate::standin::block_barrier();
}
inline void __syncwarp() {
  stepgate::standin::warp_barrier();
}
inline void __threadfence() {
  stepgate::standin::fence();
}
inline void __threadfence_system() {
  stepgate::standin::fence();
}

namespace stepgate::standin {

template <class T>
T lane_value(const unsigned char* slots, unsigned lane) {
  T value;
  std::memcpy(&value, slots + lane * kSlotBytes, sizeof value);
  return value;
}

template <class T, class Combine>
T reduce(T value, Combine combine) {
  static_assert(sizeof(T) <= kSlotBytes);
  const unsigned char* slots = warp_exchange(&value, sizeof value);
  T result = lane_value<T>(slots, 0);
  for (unsigned lane = 1; lane < kLanes; ++lane) result = combine(result, lane_value<T>(slots, lane));
  return result;
}

inline unsigned own_lane() {
  return identity().thread.x % kLanes;
}

}  // namespace stepgate::standin

template <class T>
T __shfl_sync(unsigned, T value, unsigned lane) {
  return stepgate::standin::lane_value<T>(stepgate::standin::warp_exchange(&value, sizeof value), lane % 32);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance) {
  const unsigned lane = stepgate::standin::own_lane();
  return __shfl_sync(mask, value, lane + distance < 32 ? lane + distance : lane);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, unsigned bits) {
  return __shfl_sync(mask, value, stepgate::standin::own_lane() ^ bits);
}
inline std::uint32_t __reduce_add_sync(unsigned, std::uint32_t value) {
  return stepgate::standin::reduce(value, [](std::uint32_t a, std::uint32_t b) { return a + b; });
}
inline std::uint32_t __reduce_max_sync(unsigned, std::uint32_t value) {
  return stepgate::standin::reduce(value, [](std::uint32_t a, std::uint32_t b) { return std::max(a, b); });
}

// Wraps to 0 after `limit`, as CUDA's does.
inline std::uint32_t atomicInc(std::uint32_t* p, std::uint32_t limit) {
  std::atomic_ref<std::uint32_t> value(*p);
  std::uint32_t old = value.load(std::memory_order_relaxed);
  while (!value.compare_exchange_weak(old, old >= limit ? 0 : old + 1, std::memory_order_relaxed)) {
  }
  return old;
}
// Relaxed, as CUDA's: sums of integers.
inline unsigned long long atomicAdd(unsigned long long* p, unsigned long long value) {
  return std::atomic_ref<unsigned long long>(*p).fetch_add(value, std::memory_order_relaxed);
}

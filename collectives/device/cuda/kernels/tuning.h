// What of a kernel is speed and not bits, per architecture: plain data that compares. Device code
// takes its constants from here, the code that launches takes block and grid.
//
// The figures come from the arithmetic of bytes in flight (a warp holds loads_in_flight * 512 bytes;
// an SM 32 warps of it); none has been measured on a card yet.
//
// Thread: any; constexpr.
#pragma once

#include <cstdint>

#include "collectives/core/host_device.h"
#include "collectives/device/cuda/kernels/arguments.h"

namespace stepgate::cuda {

struct ScanTuning {
  std::uint32_t loads_in_flight;  // 16-byte loads of one thread before it computes; 8-byte ones for fp8
  std::uint32_t warps_per_block;
  std::uint32_t blocks_per_sm;

  friend constexpr bool operator==(const ScanTuning&, const ScanTuning&) = default;
};

struct ApplyTuning {
  std::uint32_t loads_in_flight;
  std::uint32_t warps_per_block;
  std::uint32_t blocks_per_sm;

  friend constexpr bool operator==(const ApplyTuning&, const ApplyTuning&) = default;
};

// `architecture`: compute capability times ten, 75 to 120 and beyond. `element_bytes` of the stored type.
//
// 16 bits: 32 warps of four loads keep 64 KiB in flight, what the widest memory (sm_100) asks for; 24
// warps (48 KiB) do before sm_90, where four blocks would leave too few registers. fp32 takes eight
// loads, which halves what the loop itself costs, and then needs fewer warps. fp64 needs registers for
// its columns, fp8 for twice the loads (they are half as wide).
STEPGATE_HD constexpr ScanTuning scan_tuning(std::uint32_t architecture, std::uint32_t element_bytes) {
  const bool newer = architecture >= 90;
  switch (element_bytes) {
    case 1: return {8, 8, newer ? 3u : 2u};
    case 2: return {4, 8, newer ? 4u : 3u};
    case 4: return {8, 8, 3};
    default: return {4, 8, 3};
  }
}

// An in-place scan reads each unit twice, so that what an SM's warps hold of them (16 to 64 KiB each)
// should fit in its first-level cache, or all together in the second: fewer warps, of more loads each.
STEPGATE_HD constexpr ScanTuning unscale_tuning(std::uint32_t architecture, std::uint32_t element_bytes) {
  if (architecture < 80) return {4, 8, element_bytes == 2 ? 2u : 1u};
  if (element_bytes != 2) return {8, 8, 1};
  return architecture < 90 ? ScanTuning{16, 4, 3} : ScanTuning{8, 8, 2};
}

STEPGATE_HD constexpr ApplyTuning apply_tuning(std::uint32_t architecture) {
  return architecture < 80 ? ApplyTuning{4, 8, 3} : ApplyTuning{4, 8, 4};
}

// The architecture that is being compiled for; host passes and the CPU take a middle one.
#if defined(__CUDA_ARCH__)
inline constexpr std::uint32_t kArchitecture = __CUDA_ARCH__ / 10;
#else
inline constexpr std::uint32_t kArchitecture = 90;
#endif
template <std::uint32_t kElementBytes>
inline constexpr ScanTuning kScanTuning = scan_tuning(kArchitecture, kElementBytes);
template <std::uint32_t kElementBytes>
inline constexpr ScanTuning kUnscaleTuning = unscale_tuning(kArchitecture, kElementBytes);
inline constexpr ApplyTuning kApplyTuning = apply_tuning(kArchitecture);
static_assert(kScanTuning<2>.warps_per_block <= kMaxWarpsPerBlock &&
                  kUnscaleTuning<2>.warps_per_block <= kMaxWarpsPerBlock,
              "shared memory holds kMaxWarpsPerBlock");

// Blocks of the step kernels.
inline constexpr std::uint32_t kStepThreads = 128;

// How fine to cut: several groups for every warp of the device, so that the last ones to finish are
// few bytes; as coarse as that allows, for each group costs a slot and a fence.
inline constexpr std::uint64_t kGroupsPerWarp = 12;
constexpr std::uint32_t group_log2_for(std::uint64_t units, std::uint64_t resident_warps) {
  std::uint32_t log2 = 0;
  while (log2 < kMaxGroupLog2 && (units >> (log2 + 1)) >= resident_warps * kGroupsPerWarp) ++log2;
  return log2;
}

}  // namespace stepgate::cuda

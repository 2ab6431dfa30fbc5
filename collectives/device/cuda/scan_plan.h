// How a Scan becomes launches: segments in portions that fit one kernel argument, groups sized for
// the device or, where scratch is given, for the scratch. Pure arithmetic; no bit of a result
// depends on any of it.
//
// Thread: any. Allocates nothing. Ownership: none.
#pragma once

#include <cstdint>
#include <span>

#include "collectives/device/cuda/kernels/arguments.h"
#include "collectives/device/cuda/kernels/layout.h"
#include "collectives/device/device.h"

namespace stepgate::device::cuda {

// Device code's own namespace, whose last name is that of this one.
namespace kernels = ::stepgate::cuda;

// What the largest launch of a scan needs.
struct ScratchNeed {
  std::uint64_t groups = 0;
  std::uint64_t bundles = 0;
  std::uint64_t tickets = 0;
  std::uint64_t segments = 0;  // of the whole range

  bool fits(const ScratchNeed& room) const {
    return groups <= room.groups && bundles <= room.bundles && tickets <= room.tickets &&
           segments <= room.segments;
  }
};

ScratchNeed scratch_need(std::span<const Segment> segments, std::uint32_t group_log2) noexcept;

// The finest cut that gives every resident warp its share.
std::uint32_t preferred_group_log2(std::span<const Segment> segments, std::uint64_t resident_warps) noexcept;

// From `preferred` on the first cut that fits; false where none does.
bool fitting_group_log2(std::span<const Segment> segments, std::uint32_t preferred, const ScratchNeed& room,
                        std::uint32_t* group_log2) noexcept;

// The portion of `segments` that starts at `first`: its part of the arguments, and where the next
// one starts.
std::uint32_t fill_portion(std::span<const Segment> segments, std::uint32_t first, std::uint32_t group_log2,
                           kernels::ScanArguments* arguments) noexcept;

}  // namespace stepgate::device::cuda

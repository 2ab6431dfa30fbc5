// How scans become launches: segments of one range or several in portions that fit one kernel argument,
// groups sized for the device or, where scratch is given, for the scratch. Pure arithmetic; no bit of a
// result depends on any of it.
//
// Thread: any. Allocates nothing. Ownership: none.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "collectives/device/cuda/kernels/arguments.h"
#include "collectives/device/cuda/kernels/layout.h"
#include "collectives/device/device.h"

namespace stepgate::device::cuda {

// Device code's own namespace, whose last name is that of this one.
namespace kernels = ::stepgate::cuda;

// What a range needs in one launch.
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

struct Scratch {
  ScratchNeed room;
  void* memory = nullptr;  // one block that the four arrays lie in
  GradStats* groups = nullptr;
  GradStats* bundles = nullptr;
  GradStats* segments = nullptr;
  std::uint32_t* tickets = nullptr;
};

// Enough for any portion, wherever the cuts fall.
ScratchNeed scratch_need(std::span<const Segment> segments, std::uint32_t group_log2) noexcept;

std::uint64_t units_in(std::span<const Segment> segments) noexcept;

// From `preferred` on the first cut that fits; false where none does.
bool fitting_group_log2(std::span<const Segment> segments, std::uint32_t preferred, const ScratchNeed& room,
                        std::uint32_t* group_log2) noexcept;

// One launch in the making.
class ScanLaunch {
 public:
  explicit ScanLaunch(std::uint32_t group_log2) noexcept : group_log2_(group_log2) {}

  // Takes as many of the job's segments from *next on as there is room for, and moves *next. False as
  // long as not all of them are taken: the launch is full then.
  bool take(const Scan& job, const Scratch& scratch, std::uint32_t* next) noexcept;

  bool empty() const noexcept { return range_count_ == 0; }
  std::uint32_t groups() const noexcept { return group_count_; }
  // limits and unscale_by are left to the caller.
  void write(kernels::ScanArguments* arguments) const noexcept;
  void clear() noexcept;

 private:
  bool holds(const Scratch& scratch) const noexcept;
  std::uint32_t room() const noexcept;
  void add_range(const Scan& job, const Scratch& scratch, std::uint32_t before, std::uint32_t flags) noexcept;
  void add_segment(const Segment& s) noexcept;

  std::uint32_t group_log2_;
  std::uint32_t range_count_ = 0;
  std::uint32_t segment_count_ = 0;
  std::uint32_t group_count_ = 0;
  std::uint32_t empty_ranges_ = 0;
  std::array<kernels::ScanRange, kernels::kRangesPerLaunch> ranges_;
  std::array<kernels::ScanSegment, kernels::kSegmentsPerLaunch> segments_;
  std::array<std::uint32_t, kernels::kSegmentsPerLaunch> first_group_;
};

}  // namespace stepgate::device::cuda

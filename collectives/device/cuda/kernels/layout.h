// How a scan's work is cut and where its pieces lie in scratch: pure index arithmetic, shared by the
// kernels, the code that launches them, and the tests. 64-bit wherever an element is counted.
//
//   unit (8,192 elements) -> group (2^k units, one warp) -> bundle (64 groups) -> segment -> range
//
// The sum of squares is one pairwise tree by unit index; it is cut here at aligned powers of two only,
// so every cut gives the same bits.
//
// Thread: any. Host and device.
#pragma once

#include <cstdint>

#include "collectives/core/grad_stats.h"
#include "collectives/core/host_device.h"
#include "collectives/device/cuda/kernels/arguments.h"

namespace stepgate::cuda {

STEPGATE_HD constexpr std::uint64_t ceil_divide(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b != 0);
}

STEPGATE_HD constexpr std::uint64_t units_of(std::uint64_t elements) {
  return ceil_divide(elements, kUnitElements);
}

// An empty segment has one (empty) group, so that somebody writes its result.
STEPGATE_HD constexpr std::uint64_t groups_of(std::uint64_t elements, std::uint32_t group_log2) {
  const std::uint64_t groups = ceil_divide(units_of(elements), std::uint64_t{1} << group_log2);
  return groups == 0 ? 1 : groups;
}

STEPGATE_HD constexpr std::uint32_t bundles_of(std::uint32_t groups) {
  return static_cast<std::uint32_t>(ceil_divide(groups, kBundleGroups));
}

// Where the bundles of segment `s` begin. Never overlaps the segment before it: its bundles are at
// most one more than its groups / kBundleGroups.
STEPGATE_HD constexpr std::uint32_t first_bundle(std::uint32_t s, std::uint32_t first_group) {
  return first_group / kBundleGroups + s;
}

// Tickets: the next group to take, segments done, then one per segment, then one per bundle.
inline constexpr std::uint32_t kNextGroupTicket = 0;
inline constexpr std::uint32_t kSegmentsDoneTicket = 1;
inline constexpr std::uint32_t kSegmentTickets = 2;
inline constexpr std::uint32_t kBundleTickets = kSegmentTickets + kSegmentsPerLaunch;

// Slots and tickets that a launch of this many groups and segments needs.
constexpr std::uint64_t bundle_slots(std::uint64_t groups, std::uint64_t segments) {
  return groups / kBundleGroups + segments;
}
constexpr std::uint64_t ticket_count(std::uint64_t groups, std::uint64_t segments) {
  return kBundleTickets + bundle_slots(groups, segments);
}

// The segment of a launch that a group belongs to.
STEPGATE_HD inline std::uint32_t segment_of_group(const ScanArguments& a, std::uint32_t group) {
  std::uint32_t low = 0;
  std::uint32_t high = a.segment_count;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (a.first_group[middle] <= group) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// The units of one group: [first, first + count), counted in the segment.
struct UnitRun {
  std::uint64_t first;
  std::uint32_t count;
};
STEPGATE_HD inline UnitRun units_of_group(std::uint64_t elements, std::uint64_t group,
                                          std::uint32_t group_log2) {
  const std::uint64_t first = group << group_log2;
  const std::uint64_t left = units_of(elements) - first;
  const std::uint64_t most = std::uint64_t{1} << group_log2;
  return {first, static_cast<std::uint32_t>(left < most ? left : most)};
}

// Elements of one unit of a segment.
STEPGATE_HD constexpr std::uint32_t elements_of_unit(std::uint64_t elements, std::uint64_t unit) {
  const std::uint64_t left = elements - unit * kUnitElements;
  return static_cast<std::uint32_t>(left < kUnitElements ? left : kUnitElements);
}

}  // namespace stepgate::cuda

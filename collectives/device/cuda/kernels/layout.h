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

// Where the bundles of segment `s` begin, segments and groups counted in the range. Never overlaps the
// segment before it: its bundles are at most one more than its groups / kBundleGroups.
STEPGATE_HD constexpr std::uint32_t first_bundle(std::uint32_t s, std::uint32_t first_group) {
  return first_group / kBundleGroups + s;
}

// A range's tickets: the next group to take (of the launch's first range alone), segments done, then one
// per segment, then one per bundle.
inline constexpr std::uint32_t kNextGroupTicket = 0;
inline constexpr std::uint32_t kSegmentsDoneTicket = 1;
inline constexpr std::uint32_t kSegmentTickets = 2;
inline constexpr std::uint32_t kBundleTickets = kSegmentTickets + kSegmentsPerLaunch;

// Slots and tickets that a range of this many groups and segments needs in a launch.
constexpr std::uint64_t bundle_slots(std::uint64_t groups, std::uint64_t segments) {
  return groups / kBundleGroups + segments;
}
constexpr std::uint64_t ticket_count(std::uint64_t groups, std::uint64_t segments) {
  return kBundleTickets + bundle_slots(groups, segments);
}

// Where the parts of a launch's data lie.
STEPGATE_HD inline const ScanRange* ranges_of(const ScanArguments& a) {
  return reinterpret_cast<const ScanRange*>(a.data);
}
STEPGATE_HD inline const ScanSegment* segments_of(const ScanArguments& a) {
  return reinterpret_cast<const ScanSegment*>(a.data + a.range_count * sizeof(ScanRange));
}
// Per segment; each has one group at least.
STEPGATE_HD inline const std::uint32_t* first_groups_of(const ScanArguments& a) {
  return reinterpret_cast<const std::uint32_t*>(a.data + a.range_count * sizeof(ScanRange) +
                                                a.segment_count * sizeof(ScanSegment));
}

// The last of n ascending numbers that is not above x, the first one being so.
template <class At>
STEPGATE_HD inline std::uint32_t last_not_above(std::uint32_t n, std::uint32_t x, At at) {
  std::uint32_t low = 0;
  std::uint32_t high = n;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (at(middle) <= x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// The segment of a launch that a group belongs to.
STEPGATE_HD inline std::uint32_t segment_of_group(const ScanArguments& a, std::uint32_t group) {
  const std::uint32_t* first = first_groups_of(a);
  return last_not_above(a.segment_count, group, [first](std::uint32_t i) { return first[i]; });
}

// The range that a segment belongs to. Of several that begin with it, all but the last are empty.
STEPGATE_HD inline std::uint32_t range_of_segment(const ScanArguments& a, std::uint32_t segment) {
  const ScanRange* range = ranges_of(a);
  return last_not_above(a.range_count, segment, [range](std::uint32_t i) { return range[i].first_segment; });
}

// First segment and first group behind a range.
STEPGATE_HD inline std::uint32_t end_of_range(const ScanArguments& a, std::uint32_t range) {
  return range + 1 < a.range_count ? ranges_of(a)[range + 1].first_segment : a.segment_count;
}
STEPGATE_HD inline std::uint32_t first_group_of(const ScanArguments& a, std::uint32_t segment) {
  return segment < a.segment_count ? first_groups_of(a)[segment] : a.group_count;
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

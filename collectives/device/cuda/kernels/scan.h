// The scan: warps take groups of units in any order, write what they saw into fixed slots, and the
// last warp to finish a bundle, a segment or a range folds it. One launch for one range or several, one
// read, no float atomics: the same bits for any grid and any group size.
//
// Thread: all lanes of every warp; warps need each other only through tickets, never wait. Device code.
#pragma once

#include <cstdint>

#include "collectives/device/cuda/kernels/layout.h"
#include "collectives/device/cuda/kernels/unit.h"
#include "collectives/device/cuda/kernels/unscale.h"

namespace stepgate::cuda {

// What a warp keeps in shared memory.
struct WarpScratch {
  double squares[kMaxGroupUnits];
  std::uint64_t stats[sizeof(GradStats) / sizeof(std::uint64_t)];  // a GradStats, which has initialisers
};
STEPGATE_DEVICE GradStats& stats_in(WarpScratch& scratch) {
  return *reinterpret_cast<GradStats*>(scratch.stats);
}

// One warp folds n entries in index order: 64 at a time, then the tree over those. The result is
// lane 0's in `out`; what comes back, in every lane, is the index of the first entry with inf or NaN.
inline constexpr std::uint32_t kNoneBad = 0xffffffffu;
STEPGATE_DEVICE std::uint32_t fold_stats(const GradStats* entries, std::uint32_t n, GradStats& out) {
  PairwiseSum squares;
  GradStats counts;
  std::uint32_t bad = 0;  // kNoneBad - index, so that the first one is the largest
#pragma unroll 1
  for (std::uint32_t tile = 0; tile < n; tile += 2 * kWarpLanes) {
    double pair = 0;
#pragma unroll 1
    for (std::uint32_t j = 0; j < 2; ++j) {
      const std::uint32_t i = tile + 2 * lane_index() + j;
      if (i >= n) continue;
      const GradStats s = entries[i];
      add_counts(counts, s);
      pair = j == 0 ? s.sum_squares : pair + s.sum_squares;
      if ((s.inf | s.nan) != 0) bad = larger(bad, kNoneBad - i);
    }
    squares.push(fold_lanes(pair, (n - tile + 1) / 2));
  }
  combine_counts(counts);
  counts.sum_squares = squares.total();
  if (lane_index() == 0) out = counts;
  return kNoneBad - warp_max(bad);
}

// One group's place in its segment.
struct GroupPlace {
  std::uint32_t range;    // of this launch
  std::uint32_t segment;  // of this launch
  std::uint32_t group;    // in the segment
  std::uint32_t groups;   // of the segment
};

STEPGATE_DEVICE GroupPlace place_of(const ScanArguments& a, std::uint32_t group) {
  const std::uint32_t s = segment_of_group(a, group);
  const std::uint32_t first = first_groups_of(a)[s];
  return {range_of_segment(a, s), s, group - first, first_group_of(a, s + 1) - first};
}

// A level of the fold: where a result goes, whom it waits for, and what they fold together.
struct Level {
  GradStats* slot;
  std::uint32_t* ticket;
  std::uint32_t members;  // warps that come here
  const GradStats* entries;
  std::uint32_t entry_count;
};

// Where a segment lies in its range's share of this launch.
struct SegmentPlace {
  std::uint32_t segment;
  std::uint32_t first_group;
};
STEPGATE_DEVICE SegmentPlace in_range(const ScanArguments& a, const GroupPlace& at) {
  const std::uint32_t first = ranges_of(a)[at.range].first_segment;
  return {at.segment - first, first_groups_of(a)[at.segment] - first_groups_of(a)[first]};
}

STEPGATE_DEVICE Level bundle_level(const ScanArguments& a, const GroupPlace& at) {
  const ScanRange& range = ranges_of(a)[at.range];
  const SegmentPlace in = in_range(a, at);
  GradStats* const groups = range.groups + in.first_group;
  const std::uint32_t bundle = at.group / kBundleGroups;
  const std::uint32_t left = at.groups - bundle * kBundleGroups;
  const std::uint32_t members = left < kBundleGroups ? left : kBundleGroups;
  const std::uint32_t base = first_bundle(in.segment, in.first_group);
  return {groups + at.group, range.tickets + kBundleTickets + base + bundle, members,
          groups + bundle * kBundleGroups, members};
}

STEPGATE_DEVICE Level segment_level(const ScanArguments& a, const GroupPlace& at) {
  const ScanRange& range = ranges_of(a)[at.range];
  const SegmentPlace in = in_range(a, at);
  GradStats* const bundles = range.bundles + first_bundle(in.segment, in.first_group);
  const std::uint32_t count = bundles_of(at.groups);
  return {bundles + at.group / kBundleGroups, range.tickets + kSegmentTickets + in.segment, count, bundles,
          count};
}

STEPGATE_DEVICE Level range_level(const ScanArguments& a, const GroupPlace& at) {
  const ScanRange& range = ranges_of(a)[at.range];
  return {range.segments + range.segments_before + (at.segment - range.first_segment),
          range.tickets + kSegmentsDoneTicket, end_of_range(a, at.range) - range.first_segment,
          range.segments, range.segment_count};
}

// `stats` speak of the whole range. The stamp comes last.
STEPGATE_DEVICE void deliver_range(const ScanRange& range, const GradStats& stats, std::uint32_t first_bad) {
  if (lane_index() != 0) return;
  if (range.total != nullptr) *range.total = stats;
  if (range.first_bad != nullptr) *range.first_bad = static_cast<std::int32_t>(first_bad);
  if (range.stamp == nullptr) return;
  __threadfence();
  *range.stamp = *range.epoch;
}

// A group's `stats` (written by lane 0) go into its slot. The last warp of a bundle folds it and goes
// on with the result; likewise the last one of a segment, and of the launch that finishes the range.
STEPGATE_DEVICE void deliver(const ScanArguments& a, const GroupPlace& at, GradStats& stats) {
  enum { kBundle, kSegment, kRange } level = at.groups > 1 ? kBundle : kRange;
#pragma unroll 1
  while (true) {
    const Level here = level == kBundle    ? bundle_level(a, at)
                       : level == kSegment ? segment_level(a, at)
                                           : range_level(a, at);
    if (lane_index() == 0) *here.slot = stats;
    if (level == kRange && (ranges_of(a)[at.range].flags & kFinishesRange) == 0) return;
    if (!arrive_last(here.ticket, here.members)) return;
    const std::uint32_t first_bad = fold_stats(here.entries, here.entry_count, stats);
    if (level == kRange) return deliver_range(ranges_of(a)[at.range], stats, first_bad);
    level = level == kBundle && bundles_of(at.groups) > 1 ? kSegment : kRange;
  }
}

// A range's stamp comes after the last of its groups, so that all warps that take one of them, in every
// launch of the scan, get the same answer.
STEPGATE_DEVICE bool stamped_already(const ScanRange& range) {
  if ((range.flags & kUnlessStamped) == 0) return false;
  std::uint32_t same = 0;
  if (lane_index() == 0) same = *range.stamp == *range.epoch;
  return __shfl_sync(kAllLanes, same, 0) != 0;
}

// What a group's units showed, beyond the lanes' own counts.
template <class F>
struct GroupSeen {
  typename F::Magnitude maximum = 0;  // finite elements
  std::uint32_t inf = 0;
  std::uint32_t nan = 0;
  std::uint32_t overranges = 0;
};

// Scans one unit; its sum of squares comes back in lane 0. In place, `multiplier` goes over it then.
template <class F, class Adder>
STEPGATE_DEVICE double scan_unit(const Unit<F>& unit, const ScanLimits& limits, Adder adder, Counts& counts,
                                 GroupSeen<F>& seen, float multiplier) {
  const UnitLook<F> first = look<F>(unit, adder, counts);
  // The hot loop's maximum may stand for a NaN where it is at or above infinity: look again.
  const bool outside =
      first.maximum >= limits.squares_above || (first.maximum != 0 && first.maximum < limits.squares_from);
  double squares = first.squares;
  std::uint32_t inf = 0;
  if (!outside && first.maximum < limits.over_from) {
    seen.maximum = larger(seen.maximum, first.maximum);
  } else {
    const UnitDetail<F> second = detail<F>(unit, limits);
    seen.maximum = larger(seen.maximum, second.maximum);
    seen.nan += second.nan;
    seen.overranges += second.overranges;
    inf = second.inf;
    if (outside) squares = second.squares;
  }
  if constexpr (F::kInPlace) inf = unscale_unit<F>(unit, limits, first.maximum, inf, multiplier);
  seen.inf += inf;
  return squares;
}

// The tree over a group's units, which lane 0 put into shared memory; right in lane 0.
STEPGATE_DEVICE double fold_units(const double* squares, std::uint32_t n) {
  const std::uint32_t i = 2 * lane_index();
  double pair = 0;
  if (i < n) pair = squares[i];
  if (i + 1 < n) pair = pair + squares[i + 1];
  return fold_lanes(pair, (n + 1) / 2);
}

template <class F>
STEPGATE_DEVICE void write_group(const GroupSeen<F>& seen, const Counts& counts, std::uint64_t elements,
                                 double squares, GradStats& out) {
  const auto nonzero = warp_sum(static_cast<std::uint32_t>(F::kCountSign * counts.nonzero));
  const auto normal = warp_sum(static_cast<std::uint32_t>(F::kCountSign * counts.normal));
  if (lane_index() != 0) return;
  GradStats s;
  s.sum_squares = squares;
  s.abs_max = F::value(seen.maximum);
  s.elements = elements;
  s.inf = seen.inf;
  s.nan = seen.nan;
  s.zeros = elements - nonzero;
  s.subnormals = nonzero - normal;
  s.overranges = seen.overranges;
  out = s;
}

// Leaves the group's stats in the warp's scratch, written by lane 0.
template <class F>
STEPGATE_DEVICE void scan_group(const ScanArguments& a, const GroupPlace& at, float multiplier,
                                WarpScratch& scratch) {
  const ScanSegment segment = segments_of(a)[at.segment];
  const auto* data = static_cast<const typename F::Element*>(segment.data);
  const std::uint32_t head = head_of<F>(data);  // of every unit: they are whole vectors apart
  const UnitRun units = units_of_group(segment.count, at.group, a.group_log2);
  const auto adder = F::normal_adder(a.limits);
  GroupSeen<F> seen;
  Counts counts;
  std::uint64_t elements = 0;
#pragma unroll 1
  for (std::uint32_t u = 0; u < units.count; ++u) {
    const std::uint64_t unit = units.first + u;
    const std::uint32_t count = elements_of_unit(segment.count, unit);
    const double sum = scan_unit(Unit<F>{data + unit * kUnitElements, count, head}, a.limits, adder, counts,
                                 seen, multiplier);
    if (lane_index() == 0) scratch.squares[u] = sum;
    elements += count;
  }
#if !defined(STEPGATE_MUTATE_NO_SYNCWARP)
  __syncwarp();
#endif
  const double sum = fold_units(scratch.squares, units.count);
  __syncwarp();  // the next group writes there again
  write_group<F>(seen, counts, elements, sum, stats_in(scratch));
}

// The group that a warp takes next. Every group taken asks once for the next one, so the ticket comes
// round to zero by itself when the launch has ended.
STEPGATE_DEVICE std::uint32_t next_group(const ScanArguments& a, std::uint32_t warps) {
  std::uint32_t taken = 0;
  if (lane_index() == 0) taken = atomicInc(ranges_of(a)[0].tickets + kNextGroupTicket, a.group_count - 1);
  return __shfl_sync(kAllLanes, taken, 0) + warps;
}

// Ranges without a segment: nobody has anything to wait for.
STEPGATE_DEVICE void finish_empty_ranges(const ScanArguments& a) {
#pragma unroll 1
  for (std::uint32_t r = 0; r < a.range_count; ++r) {
    const ScanRange& range = ranges_of(a)[r];
    if (range.segment_count == 0 && !stamped_already(range)) deliver_range(range, GradStats{}, kNoneBad);
  }
}

template <class F>
STEPGATE_DEVICE void scan(const ScanArguments& a) {
  __shared__ WarpScratch scratch[kMaxWarpsPerBlock];
  const std::uint32_t warps_per_block = blockDim.x / kWarpLanes;
  const std::uint32_t warps = gridDim.x * warps_per_block;
  const std::uint32_t warp = blockIdx.x * warps_per_block + warp_index();
  if (warp == 0 && a.empty_ranges != 0) finish_empty_ranges(a);
  float multiplier = 1;
  if constexpr (F::kInPlace) multiplier = static_cast<float>(1.0 / *a.unscale_by);
  WarpScratch& mine = scratch[warp_index()];
#pragma unroll 1
  for (std::uint32_t group = warp; group < a.group_count; group = next_group(a, warps)) {
    const GroupPlace at = place_of(a, group);
    if (stamped_already(ranges_of(a)[at.range])) continue;
    scan_group<F>(a, at, multiplier, mine);
    deliver(a, at, stats_in(mine));
  }
}

}  // namespace stepgate::cuda

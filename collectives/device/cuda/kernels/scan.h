// The scan: warps take groups of units in any order, write what they saw into fixed slots, and the
// last warp to finish a bundle, a segment or the range folds it. One launch, one read, no float
// atomics: the same bits for any grid and any group size.
//
// Thread: all lanes of every warp; warps need each other only through tickets, never wait. Device code.
#pragma once

#include <cstdint>

#include "collectives/device/cuda/kernels/layout.h"
#include "collectives/device/cuda/kernels/unit.h"

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
  std::uint32_t segment;  // of this launch
  std::uint32_t group;    // in the segment
  std::uint32_t groups;   // of the segment
};

STEPGATE_DEVICE GroupPlace place_of(const ScanArguments& a, std::uint32_t group) {
  const std::uint32_t s = segment_of_group(a, group);
  const std::uint32_t end = s + 1 < a.segment_count ? a.first_group[s + 1] : a.group_count;
  return {s, group - a.first_group[s], end - a.first_group[s]};
}

// A level of the fold: where a result goes, whom it waits for, and what they fold together.
struct Level {
  GradStats* slot;
  std::uint32_t* ticket;
  std::uint32_t members;  // warps that come here
  const GradStats* entries;
  std::uint32_t entry_count;
};

STEPGATE_DEVICE Level bundle_level(const ScanArguments& a, const GroupPlace& at) {
  GradStats* const groups = a.groups + a.first_group[at.segment];
  const std::uint32_t bundle = at.group / kBundleGroups;
  const std::uint32_t left = at.groups - bundle * kBundleGroups;
  const std::uint32_t members = left < kBundleGroups ? left : kBundleGroups;
  const std::uint32_t base = first_bundle(at.segment, a.first_group[at.segment]);
  return {groups + at.group, a.tickets + kBundleTickets + base + bundle, members,
          groups + bundle * kBundleGroups, members};
}

STEPGATE_DEVICE Level segment_level(const ScanArguments& a, const GroupPlace& at) {
  GradStats* const bundles = a.bundles + first_bundle(at.segment, a.first_group[at.segment]);
  const std::uint32_t count = bundles_of(at.groups);
  return {bundles + at.group / kBundleGroups, a.tickets + kSegmentTickets + at.segment, count, bundles,
          count};
}

STEPGATE_DEVICE Level range_level(const ScanArguments& a, const GroupPlace& at) {
  return {a.segments + a.first_segment + at.segment, a.tickets + kSegmentsDoneTicket, a.segment_count,
          a.segments, a.range_segments};
}

// `stats` speak of the whole range.
STEPGATE_DEVICE void deliver_range(const ScanArguments& a, const GradStats& stats, std::uint32_t first_bad) {
  if (lane_index() != 0) return;
  if (a.total != nullptr) *a.total = stats;
  if (a.first_bad != nullptr) *a.first_bad = static_cast<std::int32_t>(first_bad);
  if (a.stamp == nullptr) return;
  __threadfence();
  *a.stamp = *a.epoch;
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
    if (level == kRange && a.finish == 0) return;
    if (!arrive_last(here.ticket, here.members)) return;
    const std::uint32_t first_bad = fold_stats(here.entries, here.entry_count, stats);
    if (level == kRange) return deliver_range(a, stats, first_bad);
    level = level == kBundle && bundles_of(at.groups) > 1 ? kSegment : kRange;
  }
}

// What a group's units showed, beyond the lanes' own counts.
template <class F>
struct GroupSeen {
  typename F::Magnitude maximum = 0;  // finite elements
  std::uint32_t inf = 0;
  std::uint32_t nan = 0;
  std::uint32_t overranges = 0;
};

// Scans one unit; its sum of squares comes back in lane 0.
template <class F, class Adder>
STEPGATE_DEVICE double scan_unit(const Unit<F>& unit, const ScanLimits& limits, Adder adder, Counts& counts,
                                 GroupSeen<F>& seen) {
  const UnitLook<F> first = look<F>(unit, adder, counts);
  // The hot loop's maximum may stand for a NaN where it is at or above infinity: look again.
  const bool outside =
      first.maximum >= limits.squares_above || (first.maximum != 0 && first.maximum < limits.squares_from);
  if (!outside && first.maximum < limits.over_from) {
    seen.maximum = larger(seen.maximum, first.maximum);
    return first.squares;
  }
  const UnitDetail<F> second = detail<F>(unit, limits);
  seen.maximum = larger(seen.maximum, second.maximum);
  seen.inf += second.inf;
  seen.nan += second.nan;
  seen.overranges += second.overranges;
  return outside ? second.squares : first.squares;
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
STEPGATE_DEVICE void scan_group(const ScanArguments& a, const GroupPlace& at, WarpScratch& scratch) {
  const ScanSegment segment = a.segment[at.segment];
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
    const double sum =
        scan_unit(Unit<F>{data + unit * kUnitElements, count, head}, a.limits, adder, counts, seen);
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
  if (lane_index() == 0) taken = atomicInc(a.tickets + kNextGroupTicket, a.group_count - 1);
  return __shfl_sync(kAllLanes, taken, 0) + warps;
}

// A range without a segment: nobody has anything to wait for.
STEPGATE_DEVICE void finish_empty_range(const ScanArguments& a) {
  deliver_range(a, GradStats{}, kNoneBad);
}

// Asked before a warp's first group: the stamp comes after the last of them all, so that all warps with
// work, in every launch of the scan, get the same answer.
STEPGATE_DEVICE bool stamped_already(const ScanArguments& a) {
  if (a.unless_stamped == 0) return false;
  std::uint32_t same = 0;
  if (lane_index() == 0) same = *a.stamp == *a.epoch;
  return __shfl_sync(kAllLanes, same, 0) != 0;
}

template <class F>
STEPGATE_DEVICE void scan(const ScanArguments& a) {
  __shared__ WarpScratch scratch[kMaxWarpsPerBlock];
  const std::uint32_t warps_per_block = blockDim.x / kWarpLanes;
  const std::uint32_t warps = gridDim.x * warps_per_block;
  const std::uint32_t warp = blockIdx.x * warps_per_block + warp_index();
  if (warp != 0 && warp >= a.group_count) return;
  if (stamped_already(a)) return;
  if (a.group_count == 0) {
    if (warp == 0 && a.finish != 0) finish_empty_range(a);
    return;
  }
  WarpScratch& mine = scratch[warp_index()];
#pragma unroll 1
  for (std::uint32_t group = warp; group < a.group_count; group = next_group(a, warps)) {
    const GroupPlace at = place_of(a, group);
    scan_group<F>(a, at, mine);
    deliver(a, at, stats_in(mine));
  }
}

}  // namespace stepgate::cuda

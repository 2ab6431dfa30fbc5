#include "collectives/device/cuda/scan_plan.h"

#include <algorithm>

#include "collectives/device/cuda/kernels/tuning.h"

namespace stepgate::device::cuda {
namespace {

constexpr std::uint64_t kMaxGroups = 0xffffffffu;

}  // namespace

ScratchNeed scratch_need(std::span<const Segment> segments, std::uint32_t group_log2) noexcept {
  ScratchNeed need;
  need.segments = segments.size();
  for (std::size_t first = 0; first < segments.size(); first += kernels::kSegmentsPerLaunch) {
    const auto count = std::min<std::uint64_t>(kernels::kSegmentsPerLaunch, segments.size() - first);
    std::uint64_t groups = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      groups += kernels::groups_of(segments[first + i].count, group_log2);
    }
    need.groups = std::max(need.groups, groups);
    need.bundles = std::max(need.bundles, kernels::bundle_slots(groups, count));
    need.tickets = std::max(need.tickets, kernels::ticket_count(groups, count));
  }
  need.tickets = std::max(need.tickets, kernels::ticket_count(0, 0));
  return need;
}

std::uint32_t preferred_group_log2(std::span<const Segment> segments, std::uint64_t resident_warps) noexcept {
  std::uint64_t units = 0;
  for (const Segment& s : segments) units += kernels::units_of(s.count);
  return kernels::group_log2_for(units, resident_warps);
}

bool fitting_group_log2(std::span<const Segment> segments, std::uint32_t preferred, const ScratchNeed& room,
                        std::uint32_t* group_log2) noexcept {
  for (std::uint32_t k = preferred; k <= kernels::kMaxGroupLog2; ++k) {
    const ScratchNeed need = scratch_need(segments, k);
    if (need.groups > kMaxGroups || !need.fits(room)) continue;
    *group_log2 = k;
    return true;
  }
  return false;
}

std::uint32_t fill_portion(std::span<const Segment> segments, std::uint32_t first, std::uint32_t group_log2,
                           kernels::ScanArguments* a) noexcept {
  const auto all = static_cast<std::uint32_t>(segments.size());
  a->first_segment = first;
  a->segment_count = std::min(kernels::kSegmentsPerLaunch, all - first);
  a->range_segments = all;
  a->group_log2 = group_log2;
  a->group_count = 0;
  for (std::uint32_t i = 0; i < a->segment_count; ++i) {
    const Segment& s = segments[first + i];
    a->first_group[i] = a->group_count;
    a->segment[i] = {s.data, s.count};
    a->group_count += static_cast<std::uint32_t>(kernels::groups_of(s.count, group_log2));
  }
  a->finish = first + a->segment_count == all;
  return first + a->segment_count;
}

}  // namespace stepgate::device::cuda

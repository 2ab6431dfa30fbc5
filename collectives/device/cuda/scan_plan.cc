#include "collectives/device/cuda/scan_plan.h"

#include <algorithm>
#include <cstring>

namespace stepgate::device::cuda {
namespace {

constexpr std::uint64_t kMaxGroups = 0xffffffffu;

}  // namespace

ScratchNeed scratch_need(std::span<const Segment> segments, std::uint32_t group_log2) noexcept {
  ScratchNeed need;
  need.segments = segments.size();
  const auto groups_in = [&](std::size_t i) { return kernels::groups_of(segments[i].count, group_log2); };
  std::uint64_t groups = 0;  // of the segments in the window that ends with i
  for (std::size_t i = 0; i < segments.size(); ++i) {
    groups += groups_in(i);
    if (i >= kernels::kSegmentsPerLaunch) groups -= groups_in(i - kernels::kSegmentsPerLaunch);
    need.groups = std::max(need.groups, groups);
  }
  const auto window = std::min<std::uint64_t>(segments.size(), kernels::kSegmentsPerLaunch);
  need.bundles = kernels::bundle_slots(need.groups, window);
  need.tickets = kernels::ticket_count(need.groups, window);
  return need;
}

std::uint64_t units_in(std::span<const Segment> segments) noexcept {
  std::uint64_t units = 0;
  for (const Segment& s : segments) units += kernels::units_of(s.count);
  return units;
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

// Two ranges of one launch may not share scratch.
bool ScanLaunch::holds(const Scratch& scratch) const noexcept {
  return std::any_of(ranges_.begin(), ranges_.begin() + range_count_,
                     [&](const kernels::ScanRange& r) { return r.tickets == scratch.tickets; });
}

// For segments of one more range.
std::uint32_t ScanLaunch::room() const noexcept {
  const std::uint32_t used = kernels::scan_data_bytes(range_count_ + 1, segment_count_);
  if (used > kernels::kScanDataBytes) return 0;
  return std::min((kernels::kScanDataBytes - used) / kernels::scan_data_bytes(0, 1),
                  kernels::kSegmentsPerLaunch - segment_count_);
}

void ScanLaunch::add_range(const Scan& job, const Scratch& scratch, std::uint32_t before,
                           std::uint32_t flags) noexcept {
  kernels::ScanRange& r = ranges_[range_count_++];
  r = {};
  r.groups = scratch.groups;
  r.bundles = scratch.bundles;
  r.tickets = scratch.tickets;
  r.segments = job.per_segment != nullptr ? job.per_segment : scratch.segments;
  r.total = job.total;
  r.first_bad = job.first_bad;
  r.epoch = job.epoch;
  r.stamp = job.stamp;
  r.first_segment = segment_count_;
  r.segments_before = before;
  r.segment_count = static_cast<std::uint32_t>(job.segments.size());
  r.flags = flags | (job.unless_stamped ? kernels::kUnlessStamped : 0);
}

void ScanLaunch::add_segment(const Segment& s) noexcept {
  segments_[segment_count_] = {s.data, s.count};
  first_group_[segment_count_++] = group_count_;
  group_count_ += static_cast<std::uint32_t>(kernels::groups_of(s.count, group_log2_));
}

bool ScanLaunch::take(const Scan& job, const Scratch& scratch, std::uint32_t* next) noexcept {
  const auto all = static_cast<std::uint32_t>(job.segments.size());
  const std::uint32_t most = room();
  if (holds(scratch) || range_count_ == ranges_.size() || (most == 0 && all != 0)) return false;
  const std::uint32_t first = *next;
  const std::uint32_t end = std::min(all, first + most);
  empty_ranges_ += all == 0;
  add_range(job, scratch, first, end == all ? kernels::kFinishesRange : 0);
  for (std::uint32_t i = first; i < end; ++i) add_segment(job.segments[i]);
  *next = end;
  return end == all;
}

void ScanLaunch::write(kernels::ScanArguments* a) const noexcept {
  a->range_count = range_count_;
  a->segment_count = segment_count_;
  a->group_count = group_count_;
  a->group_log2 = group_log2_;
  a->empty_ranges = empty_ranges_;
  unsigned char* to = a->data;
  const auto append = [&to](const auto& items, std::uint32_t n) {
    std::memcpy(to, items.data(), n * sizeof items[0]);
    to += n * sizeof items[0];
  };
  append(ranges_, range_count_);
  append(segments_, segment_count_);
  append(first_group_, segment_count_);
}

void ScanLaunch::clear() noexcept {
  range_count_ = segment_count_ = group_count_ = empty_ranges_ = 0;
}

}  // namespace stepgate::device::cuda

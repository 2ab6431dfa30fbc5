#include "tests/collectives/device_cuda/kernel_runs.h"

#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "collectives/device/cuda/kernels/layout.h"
#include "collectives/device/cuda/kernels/limits.h"
#include "collectives/device/host/host_device.h"
#include "tests/collectives/device/scan_oracle.h"
#include "tests/standin_cuda/driver/kernel_lookup.h"

namespace stepgate::test {
namespace {

using cuda::ScanArguments;
using device::Segment;

std::string scan_kernel(ElementType t, bool in_place) {
  static const char* const kNames[] = {"fp32", "fp16", "bf16", "fp64", "fp8_e4m3", "fp8_e5m2"};
  return std::string(in_place ? "stepgate_unscale_" : "stepgate_scan_") +
         kNames[static_cast<std::uint32_t>(t)];
}

// A range's scratch for one launch. Slots hold anything before they are written.
struct RangeScratch {
  RangeScratch(std::uint64_t groups_needed, std::uint64_t segments)
      : groups(groups_needed, junk()),
        bundles(cuda::bundle_slots(groups_needed, segments), junk()),
        tickets(cuda::ticket_count(groups_needed, segments), 0) {}
  static GradStats junk() {
    GradStats s;
    std::memset(static_cast<void*>(&s), 0xa5, sizeof s);
    return s;
  }
  std::vector<GradStats> groups, bundles;
  std::vector<std::uint32_t> tickets;
};

// One launch in the making.
class Launch {
 public:
  Launch(std::string kernel, const ScanArguments& common, const ScanShape& shape)
      : kernel_(std::move(kernel)), common_(common), shape_(shape) {}

  // As many of the segments from `first` on as there is room for; the index of the next one.
  std::size_t add(const std::vector<Segment>& segments, std::size_t first, const cuda::ScanRange& range) {
    cuda::ScanRange r = range;
    r.first_segment = static_cast<std::uint32_t>(segments_.size());
    r.segments_before = static_cast<std::uint32_t>(first);
    r.segment_count = static_cast<std::uint32_t>(segments.size());
    std::size_t next = first;
    std::uint64_t groups = 0;
    for (; next < segments.size() && fits(ranges_.size() + 1, segments_.size() + 1); ++next) {
      segments_.push_back({segments[next].data, segments[next].count});
      first_group_.push_back(groups_);
      groups += cuda::groups_of(segments[next].count, shape_.group_log2);
      groups_ += static_cast<std::uint32_t>(cuda::groups_of(segments[next].count, shape_.group_log2));
    }
    if (next == first && !segments.empty()) return first;
    scratch_.emplace_back(groups, next - first);
    r.groups = scratch_.back().groups.data();
    r.bundles = scratch_.back().bundles.data();
    r.tickets = scratch_.back().tickets.data();
    r.flags = range.flags | (next == segments.size() ? cuda::kFinishesRange : 0);
    empty_ += segments.empty();
    ranges_.push_back(r);
    return next;
  }
  bool full_for_a_range() const { return !fits(ranges_.size() + 1, segments_.size()); }

  void run() {
    if (ranges_.empty()) return;
    auto a = std::make_unique<ScanArguments>(common_);
    a->range_count = static_cast<std::uint32_t>(ranges_.size());
    a->segment_count = static_cast<std::uint32_t>(segments_.size());
    a->group_count = groups_;
    a->group_log2 = shape_.group_log2;
    a->empty_ranges = empty_;
    unsigned char* to = a->data;
    const auto append = [&to](const auto& items) {
      if (!items.empty()) std::memcpy(to, items.data(), items.size() * sizeof items[0]);
      to += items.size() * sizeof items[0];
    };
    append(ranges_);
    append(segments_);
    append(first_group_);
    run_kernel(kernel_.c_str(), shape_.grid, shape_.block, *a);
    for (const RangeScratch& s : scratch_) {
      for (std::size_t i = 0; i < s.tickets.size(); ++i) {
        if (s.tickets[i] != 0) throw std::runtime_error("ticket " + std::to_string(i) + " is not zero again");
      }
    }
    ranges_.clear(), segments_.clear(), first_group_.clear(), scratch_.clear();
    groups_ = empty_ = 0;
  }

 private:
  static bool fits(std::size_t ranges, std::size_t segments) {
    return segments <= cuda::kSegmentsPerLaunch &&
           cuda::scan_data_bytes(static_cast<std::uint32_t>(ranges), static_cast<std::uint32_t>(segments)) <=
               cuda::kScanDataBytes;
  }
  std::string kernel_;
  const ScanArguments& common_;
  ScanShape shape_;
  std::vector<cuda::ScanRange> ranges_;
  std::vector<cuda::ScanSegment> segments_;
  std::vector<std::uint32_t> first_group_;
  std::deque<RangeScratch> scratch_;
  std::uint32_t groups_ = 0, empty_ = 0;
};

}  // namespace

void run_kernel_bytes(const char* name, unsigned grid, unsigned block, const void* arguments,
                      std::size_t bytes) {
  const standin::CpuKernel* kernel = standin::find_kernel(name);
  if (kernel == nullptr) throw std::runtime_error(std::string("no kernel ") + name);
  if (kernel->argument_bytes != bytes) throw std::runtime_error(std::string("arguments of ") + name);
  kernel->run(grid, block, 0, arguments);
}

std::vector<ScanResult> scan_all_on_standin(ElementType stored, ElementType compute,
                                            const std::vector<std::vector<Segment>>& ranges,
                                            const ScanShape& shape, const ScanExtras& extras,
                                            const std::vector<ScanResult>& before) {
  std::vector<ScanResult> results = before.empty() ? std::vector<ScanResult>(ranges.size()) : before;
  ScanArguments common{};
  common.limits = cuda::scan_limits(stored, compute);
  common.unscale_by = extras.unscale_by;
  Launch launch(scan_kernel(stored, extras.unscale_by != nullptr), common, shape);
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    results[r].segments.resize(ranges[r].size());
    cuda::ScanRange range{};
    range.segments = results[r].segments.data();
    range.total = &results[r].total;
    range.first_bad = &results[r].first_bad;
    range.epoch = extras.epoch;
    range.stamp = extras.stamps != nullptr ? extras.stamps + r : nullptr;
    range.flags = extras.unless_stamped ? cuda::kUnlessStamped : 0;
    std::size_t next = 0;
    do {
      if (launch.full_for_a_range()) launch.run();
      next = launch.add(ranges[r], next, range);
      if (next < ranges[r].size()) launch.run();
    } while (next < ranges[r].size());
  }
  launch.run();
  return results;
}

ScanResult scan_on_standin(ElementType stored, ElementType compute, const std::vector<Segment>& segments,
                           const ScanShape& shape, const ScanExtras& extras) {
  return scan_all_on_standin(stored, compute, {segments}, shape, extras)[0];
}

ScanResult scan_on_host(ElementType stored, ElementType compute, const std::vector<Segment>& segments,
                        const double* unscale_by) {
  ScanResult result;
  result.segments.resize(segments.size());
  device::HostDevice host;
  const device::Scan job{.segments = segments,
                         .stored = stored,
                         .compute = compute,
                         .total = &result.total,
                         .per_segment = result.segments.data(),
                         .first_bad = &result.first_bad,
                         .unscale_by = unscale_by};
  if (host.scan(nullptr, job) != device::Code::kOk) throw std::runtime_error(host.last_error());
  return result;
}

std::string difference(const ScanResult& got, const ScanResult& want) {
  for (std::size_t i = 0; i < want.segments.size(); ++i) {
    const std::string d = difference(got.segments[i], want.segments[i]);
    if (!d.empty()) return "segment " + std::to_string(i) + ": " + d;
  }
  const std::string d = difference(got.total, want.total);
  if (!d.empty()) return "total: " + d;
  if (got.first_bad == want.first_bad) return "";
  return "first_bad " + std::to_string(got.first_bad) + ", not " + std::to_string(want.first_bad);
}

}  // namespace stepgate::test

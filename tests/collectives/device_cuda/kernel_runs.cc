#include "tests/collectives/device_cuda/kernel_runs.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "collectives/device/cuda/kernels/layout.h"
#include "collectives/device/cuda/kernels/limits.h"
#include "collectives/device/host/host_device.h"
#include "tests/collectives/device/scan_oracle.h"
#include "tests/standin_cuda/driver/kernel_lookup.h"

namespace stepgate::test {
namespace {

using cuda::ScanArguments;
using device::Segment;

std::string scan_kernel(ElementType t) {
  static const char* const kNames[] = {"fp32", "fp16", "bf16", "fp64", "fp8_e4m3", "fp8_e5m2"};
  return std::string("stepgate_scan_") + kNames[static_cast<std::uint32_t>(t)];
}

// One launch's segments: [first, first + segment_count).
void fill_segments(ScanArguments& a, const std::vector<Segment>& segments, std::size_t first) {
  a.first_segment = static_cast<std::uint32_t>(first);
  a.segment_count =
      static_cast<std::uint32_t>(std::min<std::size_t>(cuda::kSegmentsPerLaunch, segments.size() - first));
  a.range_segments = static_cast<std::uint32_t>(segments.size());
  a.group_count = 0;
  for (std::uint32_t i = 0; i < a.segment_count; ++i) {
    const Segment& s = segments[first + i];
    a.segment[i] = {s.data, s.count};
    a.first_group[i] = a.group_count;
    a.group_count += static_cast<std::uint32_t>(cuda::groups_of(s.count, a.group_log2));
  }
  a.finish = first + a.segment_count == segments.size();
}

void launch(const std::string& kernel, ScanArguments& a, const ScanShape& shape) {
  // Slots hold anything before they are written.
  GradStats junk;
  std::memset(static_cast<void*>(&junk), 0xa5, sizeof junk);
  std::vector<GradStats> groups(a.group_count, junk);
  std::vector<GradStats> bundles(cuda::bundle_slots(a.group_count, a.segment_count), junk);
  std::vector<std::uint32_t> tickets(cuda::ticket_count(a.group_count, a.segment_count), 0);
  a.groups = groups.data();
  a.bundles = bundles.data();
  a.tickets = tickets.data();
  run_kernel(kernel.c_str(), shape.grid, shape.block, a);
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    if (tickets[i] != 0) throw std::runtime_error("ticket " + std::to_string(i) + " is not zero again");
  }
}

}  // namespace

void run_kernel_bytes(const char* name, unsigned grid, unsigned block, const void* arguments,
                      std::size_t bytes) {
  const standin::CpuKernel* kernel = standin::find_kernel(name);
  if (kernel == nullptr) throw std::runtime_error(std::string("no kernel ") + name);
  if (kernel->argument_bytes != bytes) throw std::runtime_error(std::string("arguments of ") + name);
  kernel->run(grid, block, 0, arguments);
}

ScanResult scan_on_standin(ElementType stored, ElementType compute, const std::vector<Segment>& segments,
                           const ScanShape& shape) {
  ScanResult result;
  result.segments.resize(segments.size());
  ScanArguments a{};
  a.segments = result.segments.data();
  a.total = &result.total;
  a.first_bad = &result.first_bad;
  a.limits = cuda::scan_limits(stored, compute);
  a.group_log2 = shape.group_log2;
  std::size_t next = 0;
  do {
    fill_segments(a, segments, next);
    launch(scan_kernel(stored), a, shape);
    next += a.segment_count;
  } while (next < segments.size());
  return result;
}

ScanResult scan_on_host(ElementType stored, ElementType compute, const std::vector<Segment>& segments) {
  ScanResult result;
  result.segments.resize(segments.size());
  device::HostDevice host;
  const device::Scan job{.segments = segments,
                         .stored = stored,
                         .compute = compute,
                         .total = &result.total,
                         .per_segment = result.segments.data(),
                         .first_bad = &result.first_bad};
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

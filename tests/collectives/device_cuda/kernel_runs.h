// The device kernels, run on the CPU stand-in as their launch code would run them, for comparison with
// HostDevice. Scratch is exactly as large as layout.h says, so that AddressSanitizer sees a step too far.
//
// Thread: any; functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/core/element_type.h"
#include "collectives/core/grad_stats.h"
#include "collectives/device/cuda/kernels/arguments.h"
#include "collectives/device/device.h"

namespace stepgate::test {

// What may differ from run to run without a bit of the result changing.
struct ScanShape {
  unsigned grid = 2;
  unsigned block = 32;
  std::uint32_t group_log2 = 0;
};
inline constexpr ScanShape kScanShapes[] = {{1, 32, 0}, {3, 64, 0}, {2, 128, 2}, {5, 64, 6}, {2, 256, 1}};

struct ScanResult {
  GradStats total;
  std::vector<GradStats> segments;
  std::int32_t first_bad = -2;
};

// What else a scan may have.
struct ScanExtras {
  const double* unscale_by = nullptr;  // in place
  const std::uint64_t* epoch = nullptr;
  std::uint64_t* stamps = nullptr;  // one per range
  bool unless_stamped = false;
};

// Throws where a ticket does not come back to zero.
ScanResult scan_on_standin(ElementType stored, ElementType compute,
                           const std::vector<device::Segment>& segments, const ScanShape& shape,
                           const ScanExtras& extras = {});
// Several ranges, in as few launches as hold them. Results start as `before`, where that is not empty.
std::vector<ScanResult> scan_all_on_standin(ElementType stored, ElementType compute,
                                            const std::vector<std::vector<device::Segment>>& ranges,
                                            const ScanShape& shape, const ScanExtras& extras = {},
                                            const std::vector<ScanResult>& before = {});
ScanResult scan_on_host(ElementType stored, ElementType compute, const std::vector<device::Segment>& segments,
                        const double* unscale_by = nullptr);

// Empty when equal bit for bit, else what differs.
std::string difference(const ScanResult& got, const ScanResult& want);

// Runs a kernel of the fatbin's list by its name.
template <class Arguments>
void run_kernel(const char* name, unsigned grid, unsigned block, const Arguments& a);
void run_kernel_bytes(const char* name, unsigned grid, unsigned block, const void* arguments,
                      std::size_t bytes);

template <class Arguments>
void run_kernel(const char* name, unsigned grid, unsigned block, const Arguments& a) {
  run_kernel_bytes(name, grid, block, &a, sizeof a);
}

}  // namespace stepgate::test

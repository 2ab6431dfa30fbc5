// No table reads or writes a byte outside the elements it was given.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "collectives/device/host/host_device.h"
#include "collectives/device/host/kernels.h"
#include "tests/collectives/device/guarded_buffer.h"
#include "tests/collectives/device/scan_oracle.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

using device::Code;
using device::HostDevice;
using device::Segment;
using Against = GuardedBuffer::Against;

std::vector<std::size_t> guarded_lengths() {
  std::vector<std::size_t> lengths = {255, 256, 257, 500, 8191, 8192, 8193, 8700, 20001};
  for (std::size_t n = 0; n <= 70; ++n) lengths.push_back(n);
  return lengths;
}

void scan_between_guards(const HostDevice& table, ElementType t, const Elements& e, Against side) {
  HostDevice host = table;
  const auto bytes = pack(t, e);
  const GuardedBuffer guarded(bytes.size(), side);
  if (!bytes.empty()) std::memcpy(guarded.data(), bytes.data(), bytes.size());
  const Segment segment{guarded.data(), e.size()};
  GradStats stats;
  ASSERT_EQ(host.scan(nullptr, {.segments = {&segment, 1}, .stored = t, .total = &stats}), Code::kOk);
  EXPECT_EQ(difference(stats, oracle_scan(t, ElementType::kFp16, e)), "") << type_label(t) << ' ' << e.size();
}

TEST(GuardPages, ScanStaysInside) {
  std::mt19937_64 random(test_seed());
  for (const auto* table : device::host::runnable_kernels()) {
    for (const ElementType t : kStoredTypes) {
      for (const std::size_t n : guarded_lengths()) {
        scan_between_guards(HostDevice(*table), t, healthy(t, n, random), Against::kBack);
        scan_between_guards(HostDevice(*table), t, healthy(t, n, random), Against::kFront);
        scan_between_guards(HostDevice(*table), t, any_bits(t, n, random), Against::kBack);
      }
    }
  }
}

void apply_between_guards(const HostDevice& table, ElementType t, const Elements& e, Against side,
                          bool widen) {
  HostDevice host = table;
  const auto bytes = pack(t, e);
  const GuardedBuffer data(bytes.size(), side);
  const GuardedBuffer out(e.size() * sizeof(float), side);
  if (!bytes.empty()) std::memcpy(data.data(), bytes.data(), bytes.size());
  Outputs outputs;
  outputs.found_inf = 0;
  outputs.multiplier = 0.25f;
  ASSERT_EQ(host.apply(nullptr, {.data = data.data(),
                                 .count = e.size(),
                                 .stored = t,
                                 .outputs = &outputs,
                                 .out = widen ? out.data() : nullptr}),
            Code::kOk);
}

TEST(GuardPages, ApplyStaysInside) {
  std::mt19937_64 random(test_seed());
  for (const auto* table : device::host::runnable_kernels()) {
    for (const ElementType t : kStoredTypes) {
      for (const std::size_t n : guarded_lengths()) {
        for (const Against side : {Against::kFront, Against::kBack}) {
          apply_between_guards(HostDevice(*table), t, healthy(t, n, random), side, false);
          if (element_size(t) == 2)
            apply_between_guards(HostDevice(*table), t, healthy(t, n, random), side, true);
        }
      }
    }
  }
}

}  // namespace
}  // namespace stepgate::test

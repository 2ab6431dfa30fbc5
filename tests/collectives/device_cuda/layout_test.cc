// Pure parts of the kernels: limits, the cutting of work (for counts no memory here could hold),
// tuning.
#include "collectives/device/cuda/kernels/layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>

#include "collectives/device/cuda/kernels/limits.h"
#include "collectives/device/cuda/kernels/tuning.h"
#include "collectives/device/host/thresholds.h"
#include "tests/collectives/device/scan_oracle.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

template <ElementType T>
void expect_host_limits() {
  for (std::uint32_t c = 0; c < kElementTypeCount; ++c) {
    const auto compute = static_cast<ElementType>(c);
    const device::host::Thresholds& want = device::host::thresholds<T>(compute);
    const cuda::ScanLimits got = cuda::scan_limits(T, compute);
    EXPECT_EQ(got.infinity, want.infinity);
    EXPECT_EQ(got.nan_from, want.infinity + 1);
    EXPECT_EQ(got.normal_from, want.normal_from) << type_label(T) << " for " << type_label(compute);
    EXPECT_EQ(got.over_from, want.over_from) << type_label(T) << " for " << type_label(compute);
    EXPECT_EQ(got.squares_from, want.squares_from);
    EXPECT_EQ(got.squares_above, want.squares_above);
  }
}

TEST(KernelLimits, AreTheHosts) {
  expect_host_limits<ElementType::kFp32>();
  expect_host_limits<ElementType::kFp16>();
  expect_host_limits<ElementType::kBf16>();
  expect_host_limits<ElementType::kFp64>();
}

TEST(KernelLimits, MagnitudesHaveTheirValue) {
  std::mt19937_64 random(test_seed());
  for (const ElementType t : kStoredTypes) {
    for (int i = 0; i < 2000; ++i) {
      const std::uint64_t m = random() % infinity_bits(t);
      ASSERT_EQ(cuda::magnitude_value(t, m), decode(t, m)) << type_label(t) << " " << m;
    }
  }
}

TEST(KernelLimits, Fp8) {
  const cuda::ScanLimits e4m3 = cuda::scan_limits(ElementType::kFp8E4M3, ElementType::kFp8E4M3);
  EXPECT_EQ(e4m3.infinity, 0x7fu);
  EXPECT_EQ(e4m3.nan_from, 0x7fu);
  EXPECT_EQ(e4m3.normal_from, 8u);
  EXPECT_EQ(e4m3.over_from, 0x7fu);
  const cuda::ScanLimits e5m2 = cuda::scan_limits(ElementType::kFp8E5M2, ElementType::kFp8E4M3);
  EXPECT_EQ(e5m2.nan_from, 0x7du);
  EXPECT_EQ(cuda::magnitude_value(ElementType::kFp8E5M2, e5m2.over_from), 512.0);
  EXPECT_EQ(cuda::magnitude_value(ElementType::kFp8E5M2, e5m2.normal_from), 0x1p-6);
}

// All units of a segment, each once, whatever the group size.
TEST(KernelLayout, GroupsCoverTheUnits) {
  for (const std::uint64_t n : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{8192}, std::uint64_t{8193},
                                std::uint64_t{64 * 8192}, std::uint64_t{65 * 8192 + 1}}) {
    for (std::uint32_t k = 0; k <= cuda::kMaxGroupLog2; ++k) {
      std::uint64_t units = 0, elements = 0;
      for (std::uint64_t g = 0; g < cuda::groups_of(n, k); ++g) {
        const cuda::UnitRun run = cuda::units_of_group(n, g, k);
        EXPECT_EQ(run.first, g << k);
        units += run.count;
        for (std::uint32_t u = 0; u < run.count; ++u) elements += cuda::elements_of_unit(n, run.first + u);
      }
      EXPECT_EQ(units, cuda::units_of(n));
      EXPECT_EQ(elements, n);
    }
  }
}

TEST(KernelLayout, CountsBeyond32Bits) {
  const std::uint64_t n = (std::uint64_t{1} << 45) + 5;
  EXPECT_EQ(cuda::units_of(n), (std::uint64_t{1} << 32) + 1);
  const std::uint64_t groups = cuda::groups_of(n, 6);
  EXPECT_EQ(groups, (std::uint64_t{1} << 26) + 1);
  const cuda::UnitRun last = cuda::units_of_group(n, groups - 1, 6);
  EXPECT_EQ(last.first, std::uint64_t{1} << 32);
  EXPECT_EQ(last.count, 1u);
  EXPECT_EQ(cuda::elements_of_unit(n, last.first), 5u);
  EXPECT_EQ(cuda::elements_of_unit(n, last.first - 1), kUnitElements);
}

// Neighbouring segments' bundles never share a slot and stay within what a launch reserves.
TEST(KernelLayout, SegmentsAndBundlesDoNotOverlap) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 50; ++round) {
    const auto segments = 1 + static_cast<std::uint32_t>(random() % cuda::kSegmentsPerLaunch);
    std::uint64_t groups_before = 0;
    std::uint32_t end_of_bundles = 0;
    for (std::uint32_t s = 0; s < segments; ++s) {
      const auto groups = 1 + static_cast<std::uint32_t>(random() % (s % 7 == 0 ? 300 : 3));
      const auto first = static_cast<std::uint32_t>(groups_before);
      groups_before += groups;
      EXPECT_GE(cuda::first_bundle(s, first), end_of_bundles);
      end_of_bundles = cuda::first_bundle(s, first) + cuda::bundles_of(groups);
    }
    EXPECT_LE(end_of_bundles, cuda::bundle_slots(groups_before, segments));
  }
}

// Which range and segment a group belongs to, empty ranges and all, for any mixture that fits a launch.
TEST(KernelLayout, EveryGroupFindsItsRange) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 50; ++round) {
    std::vector<cuda::ScanRange> ranges;
    std::vector<cuda::ScanSegment> segments;
    std::vector<std::uint32_t> first_group, segment_of, range_of;
    while (true) {
      const std::size_t wanted = random() % (round % 2 == 0 ? 3 : 40);
      const std::size_t all = segments.size() + wanted;
      if (all > cuda::kSegmentsPerLaunch ||
          cuda::scan_data_bytes(static_cast<std::uint32_t>(ranges.size() + 1),
                                static_cast<std::uint32_t>(all)) > cuda::kScanDataBytes) {
        break;
      }
      cuda::ScanRange range{};
      range.first_segment = static_cast<std::uint32_t>(segments.size());
      for (std::size_t i = 0; i < wanted; ++i) {
        first_group.push_back(static_cast<std::uint32_t>(segment_of.size()));
        const std::size_t groups = 1 + random() % 4;
        segment_of.insert(segment_of.end(), groups, static_cast<std::uint32_t>(segments.size()));
        range_of.insert(range_of.end(), groups, static_cast<std::uint32_t>(ranges.size()));
        segments.push_back({nullptr, random()});
      }
      ranges.push_back(range);
    }
    auto a = std::make_unique<cuda::ScanArguments>();
    a->range_count = static_cast<std::uint32_t>(ranges.size());
    a->segment_count = static_cast<std::uint32_t>(segments.size());
    a->group_count = static_cast<std::uint32_t>(segment_of.size());
    unsigned char* to = a->data;
    const auto append = [&to](const auto& items) {
      std::memcpy(to, items.data(), items.size() * sizeof items[0]);
      to += items.size() * sizeof items[0];
    };
    append(ranges), append(segments), append(first_group);
    ASSERT_LE(to, a->data + sizeof a->data);
    for (std::uint32_t g = 0; g < a->group_count; ++g) {
      const std::uint32_t s = cuda::segment_of_group(*a, g);
      ASSERT_EQ(s, segment_of[g]);
      ASSERT_EQ(cuda::range_of_segment(*a, s), range_of[g]);
      ASSERT_EQ(cuda::segments_of(*a)[s].count, segments[s].count);
      ASSERT_LE(cuda::first_group_of(*a, s), g);
      ASSERT_GT(cuda::first_group_of(*a, s + 1), g);
    }
    for (std::uint32_t r = 0; r < a->range_count; ++r) {
      EXPECT_EQ(cuda::end_of_range(*a, r),
                r + 1 < ranges.size() ? ranges[r + 1].first_segment : segments.size());
    }
  }
}

TEST(KernelTuning, FitsTheKernels) {
  for (const std::uint32_t architecture : {75u, 80u, 86u, 89u, 90u, 100u, 103u, 120u, 200u}) {
    for (const std::uint32_t bytes : {1u, 2u, 4u, 8u}) {
      const cuda::ScanTuning t = cuda::scan_tuning(architecture, bytes);
      EXPECT_EQ(t, cuda::scan_tuning(architecture, bytes));
      EXPECT_LE(t.warps_per_block, cuda::kMaxWarpsPerBlock);
      EXPECT_EQ(32 % t.loads_in_flight, 0u);
    }
  }
}

TEST(KernelTuning, GroupsGrowWithTheWork) {
  EXPECT_EQ(cuda::group_log2_for(0, 4096), 0u);
  EXPECT_EQ(cuda::group_log2_for(1000, 4096), 0u);
  EXPECT_EQ(cuda::group_log2_for(std::uint64_t{1} << 40, 4096), cuda::kMaxGroupLog2);
  std::uint32_t before = 0;
  for (std::uint64_t units = 1; units < std::uint64_t{1} << 30; units *= 2) {
    const std::uint32_t log2 = cuda::group_log2_for(units, 4096);
    EXPECT_GE(log2, before);
    before = log2;
  }
}

}  // namespace
}  // namespace stepgate::test

// Scans through CudaDevice: HostDevice's bits for every cut, and the limits of scratch.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "collectives/device/cuda/scan_plan.h"
#include "collectives/device/host/host_device.h"
#include "tests/collectives/device_cuda_driver/device_job.h"
#include "tests/collectives/device_cuda_driver/standin.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

using device::Code;
using device::Memory;
using device::Segment;

// Random bits of any kind on both devices, cut into the given segments.
struct Pair {
  Pair(device::CudaDevice& cuda, ElementType t, const std::vector<std::uint64_t>& counts, std::uint64_t seed)
      : type(t), total_elements(0), device(cuda, bytes_of(t, counts), Memory::kDevice) {
    std::mt19937_64 random(seed);
    host.resize(bytes_of(t, counts));
    for (unsigned char& b : host) b = static_cast<unsigned char>(random());
    EXPECT_EQ(cuda.copy_in(nullptr, device.as<void>(), host.data(), host.size()), Code::kOk);
    EXPECT_EQ(cuda.synchronize(nullptr), Code::kOk);
    std::size_t at = 0;
    for (const std::uint64_t n : counts) {
      on_host.push_back({host.data() + at, n});
      on_device.push_back({device.as<unsigned char>() + at, n});
      at += n * element_size(t);
      total_elements += n;
    }
  }
  static std::size_t bytes_of(ElementType t, const std::vector<std::uint64_t>& counts) {
    std::size_t n = 0;
    for (const std::uint64_t c : counts) n += c;
    return n * element_size(t) + 8;
  }

  ElementType type;
  std::uint64_t total_elements;
  std::vector<unsigned char> host;
  Held device;
  std::vector<Segment> on_host, on_device;
};

void compare(device::CudaDevice& cuda, const Pair& p, bool prepare) {
  device::HostDevice host;
  const std::size_t n = p.on_host.size();
  GradStats want;
  std::vector<GradStats> want_each(n);
  std::int32_t want_bad = 0;
  ASSERT_EQ(host.scan(nullptr, {.segments = p.on_host,
                                .stored = p.type,
                                .total = &want,
                                .per_segment = want_each.data(),
                                .first_bad = &want_bad}),
            Code::kOk);
  Held total(cuda, sizeof want, Memory::kMapped);
  Held each(cuda, sizeof want * n, Memory::kMapped);
  Held bad(cuda, sizeof want_bad, Memory::kMapped);
  const device::Scan job{.segments = p.on_device,
                         .stored = p.type,
                         .total = total.as<GradStats>(),
                         .per_segment = each.as<GradStats>(),
                         .first_bad = bad.as<std::int32_t>()};
  if (prepare) {
    ASSERT_EQ(cuda.prepare(job), Code::kOk) << cuda.last_error();
  }
  for (int round = 0; round < 2; ++round) {  // scratch is left as it was found
    std::memset(total.as<void>(), 0xff, sizeof want);
    ASSERT_EQ(cuda.scan(nullptr, job), Code::kOk) << cuda.last_error();
    ASSERT_EQ(cuda.synchronize(nullptr), Code::kOk);
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bits must agree
    EXPECT_EQ(std::memcmp(total.as<void>(), &want, sizeof want), 0);
    EXPECT_EQ(*bad.as<std::int32_t>(), want_bad);
    if (n != 0) {
      EXPECT_EQ(std::memcmp(each.as<void>(), want_each.data(), n * sizeof want), 0);
    }
  }
}

TEST(CudaScan, TheHostsBitsForEveryShape) {
  std::mt19937_64 random(test_seed());
  StandIn standin;
  const auto cuda = standin.device();
  ASSERT_NE(cuda, nullptr);
  const std::vector<std::uint64_t> shapes[] = {{},
                                               {0},
                                               {1},
                                               {0, 0, 1},
                                               {70000},
                                               {8192},
                                               {8193, 5},
                                               std::vector<std::uint64_t>(192, 3),
                                               std::vector<std::uint64_t>(193, 3),
                                               std::vector<std::uint64_t>(400, 1)};
  for (const ElementType t :
       {ElementType::kFp32, ElementType::kFp16, ElementType::kBf16, ElementType::kFp64}) {
    for (const auto& counts : shapes) {
      const Pair p(*cuda, t, counts, random());
      compare(*cuda, p, false);
      compare(*cuda, p, true);
      if (testing::Test::HasFailure()) FAIL() << element_type_name(t) << ' ' << counts.size() << " segments";
    }
  }
}

// Whatever fits, from finest to coarsest, is a cut of the same tree; what does not fit is refused.
TEST(CudaScanPlan, CutsToWhatFits) {
  using namespace device::cuda;
  const std::vector<Segment> big = {{nullptr, std::uint64_t{1} << 30}, {nullptr, 0}};
  const ScratchNeed fine = scratch_need(big, 0);
  EXPECT_EQ(fine.groups, (std::uint64_t{1} << 17) + 1);
  EXPECT_EQ(fine.segments, 2u);
  std::uint32_t k = 99;
  EXPECT_TRUE(fitting_group_log2(big, 0, fine, &k));
  EXPECT_EQ(k, 0u);
  EXPECT_TRUE(fitting_group_log2(big, 0, kPooledRoom, &k));
  EXPECT_EQ(k, 6u);
  EXPECT_TRUE(scratch_need(big, k).fits(kPooledRoom));
  const std::vector<Segment> bigger = {{nullptr, (std::uint64_t{1} << 31) + 1}};
  EXPECT_FALSE(fitting_group_log2(bigger, 0, kPooledRoom, &k));
  const std::vector<Segment> many(kPooledRoom.segments + 1);
  EXPECT_FALSE(fitting_group_log2(many, 0, kPooledRoom, &k));
}

// Jobs of any number of segments: each segment in one launch, each range finished once, by its last one.
TEST(CudaScanPlan, LaunchesCoverEverySegmentOnce) {
  using namespace device::cuda;
  const std::size_t sizes[] = {500, 0, 1, 1, 50, 0, 192, 7, 193, 3};
  std::vector<std::vector<Segment>> all;
  std::vector<Scratch> scratch(std::size(sizes));
  std::vector<std::uint32_t> tickets(std::size(sizes));
  std::uint64_t count = 0;
  for (const std::size_t n : sizes) {
    all.emplace_back(n);
    for (Segment& s : all.back()) s.count = 100 * count++;
  }
  std::vector<std::uint64_t> seen;
  std::vector<std::size_t> finished(std::size(sizes));
  ScanLaunch launch(0);
  const auto look = [&] {
    kernels::ScanArguments a{};
    launch.write(&a);
    launch.clear();
    std::uint32_t groups = 0, empty = 0;
    for (std::uint32_t i = 0; i < a.segment_count; ++i) {
      EXPECT_EQ(kernels::first_groups_of(a)[i], groups);
      groups += static_cast<std::uint32_t>(kernels::groups_of(kernels::segments_of(a)[i].count, 0));
      seen.push_back(kernels::segments_of(a)[i].count);
    }
    EXPECT_EQ(a.group_count, groups);
    for (std::uint32_t r = 0; r < a.range_count; ++r) {
      const kernels::ScanRange& range = kernels::ranges_of(a)[r];
      const auto job = static_cast<std::size_t>(range.tickets - tickets.data());
      EXPECT_EQ(range.segment_count, sizes[job]);
      const std::uint32_t end = range.segments_before + kernels::end_of_range(a, r) - range.first_segment;
      EXPECT_EQ((range.flags & kernels::kFinishesRange) != 0, end == sizes[job]);
      finished[job] += (range.flags & kernels::kFinishesRange) != 0;
      empty += sizes[job] == 0;
    }
    EXPECT_EQ(a.empty_ranges, empty);
    EXPECT_LE(kernels::scan_data_bytes(a.range_count, a.segment_count), kernels::kScanDataBytes);
  };
  int launches = 1;
  for (std::size_t i = 0; i < std::size(sizes); ++i) {
    device::Scan job;
    job.segments = all[i];
    scratch[i].tickets = &tickets[i];
    std::uint32_t next = 0;
    for (; !launch.take(job, scratch[i], &next); ++launches) look();
  }
  look();
  EXPECT_EQ(seen.size(), count);
  for (std::uint64_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], 100 * i);
  EXPECT_EQ(finished, std::vector<std::size_t>(std::size(sizes), 1));
  EXPECT_LE(launches, 6);
  // Two scans with one piece of scratch never share a launch.
  device::Scan job;
  job.segments = all[2];
  std::uint32_t next = 0;
  EXPECT_TRUE(launch.take(job, scratch[2], &next));
  next = 0;
  EXPECT_FALSE(launch.take(job, scratch[2], &next));
}

// Wherever a launch begins, the scratch suffices.
TEST(CudaScanPlan, ScratchServesAnyCut) {
  using namespace device::cuda;
  std::vector<Segment> segments(3 * kernels::kSegmentsPerLaunch, Segment{nullptr, 1});
  for (std::uint32_t i = 0; i < kernels::kSegmentsPerLaunch; ++i) {
    segments[kernels::kSegmentsPerLaunch / 2 + i].count = 100 * kUnitElements;
  }
  const ScratchNeed need = scratch_need(segments, 0);
  EXPECT_EQ(need.groups, 100u * kernels::kSegmentsPerLaunch);
  EXPECT_EQ(need.bundles, kernels::bundle_slots(need.groups, kernels::kSegmentsPerLaunch));
}

// Unprepared scans share a few pieces of scratch, one per stream; a ninth stream is told to prepare.
TEST(CudaScan, UnpreparedOnTooManyStreamsIsRefused) {
  StandIn standin;
  const auto cuda = standin.device();
  ASSERT_NE(cuda, nullptr);
  const Pair p(*cuda, ElementType::kFp32, {10}, 1);
  Held totals(*cuda, sizeof(GradStats) * (device::cuda::kPooledStreams + 1), Memory::kMapped);
  const auto job_for = [&](std::size_t i) {
    return device::Scan{.segments = p.on_device, .stored = p.type, .total = totals.as<GradStats>() + i};
  };
  std::vector<std::unique_ptr<JobStream>> streams;
  for (std::size_t i = 0; i < device::cuda::kPooledStreams; ++i) {
    streams.push_back(std::make_unique<JobStream>(standin));
    EXPECT_EQ(cuda->scan(streams.back()->get(), job_for(i)), Code::kOk) << cuda->last_error();
    EXPECT_EQ(cuda->scan(streams.back()->get(), job_for(i)), Code::kOk);
  }
  const device::Scan job = job_for(device::cuda::kPooledStreams);
  EXPECT_EQ(cuda->scan(nullptr, job), Code::kUnsupported);
  EXPECT_NE(std::string(cuda->last_error()).find("8 streams"), std::string::npos) << cuda->last_error();
  EXPECT_EQ(cuda->prepare(job), Code::kOk);
  EXPECT_EQ(cuda->scan(nullptr, job), Code::kOk) << cuda->last_error();
  EXPECT_EQ(cuda->synchronize(nullptr), Code::kOk);
  while (!streams.empty()) streams.pop_back();
}

// Scratch goes with the results that it serves, and is not allocated twice for one.
TEST(CudaScan, ScratchIsReservedOnceAndReleasedWithTheTotals) {
  StandIn standin;
  const auto cuda = standin.device();
  ASSERT_NE(cuda, nullptr);
  const Pair p(*cuda, ElementType::kFp32, {100, 90000}, 1);
  const auto blocks = [&] { return standin.control().account().device_blocks; };
  const std::int64_t before = blocks();
  void* slots = cuda->allocate(4 * sizeof(GradStats), Memory::kDevice);
  device::Scan job{.segments = p.on_device, .stored = p.type, .total = static_cast<GradStats*>(slots) + 3};
  EXPECT_EQ(cuda->prepare(job), Code::kOk);
  EXPECT_EQ(cuda->prepare(job), Code::kOk);
  EXPECT_EQ(blocks(), before + 2);
  const std::vector<Segment> more(50, p.on_device[0]);
  job.segments = more;
  EXPECT_EQ(cuda->scan(nullptr, job), Code::kUnsupported);
  EXPECT_NE(std::string(cuda->last_error()).find("prepare() this scan"), std::string::npos)
      << cuda->last_error();
  EXPECT_EQ(cuda->prepare(job), Code::kOk);
  EXPECT_EQ(blocks(), before + 3);  // the first one may be in a graph
  cuda->release(slots, Memory::kDevice);
  EXPECT_EQ(blocks(), before);
}

}  // namespace
}  // namespace stepgate::test

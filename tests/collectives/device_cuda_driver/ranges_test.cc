// Several scans and several products in one call: HostDevice's bits, and how few launches it takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "collectives/device/host/host_device.h"
#include "tests/collectives/device_cuda_driver/device_job.h"
#include "tests/collectives/device_cuda_driver/standin.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

using device::Code;
using device::Memory;
using device::Segment;

// What one device has of a set of ranges: bytes, results, a block for epoch and scale.
struct Side {
  Side(device::Device& d, const std::vector<RangeData>& ranges)
      : device(d),
        block(d, sizeof(GateBlock), Memory::kMapped),
        slots(d, sizeof(RangeSlot) * ranges.size(), Memory::kMapped) {
    g()->step = 5;
    g()->latched_scale = 12;
    for (const RangeData& r : ranges) {
      data.push_back(std::make_unique<Held>(d, r.bytes.size() + 8, Memory::kMapped));
      std::copy(r.bytes.begin(), r.bytes.end(), data.back()->as<unsigned char>());
      each.push_back(std::make_unique<Held>(d, sizeof(GradStats) * r.counts.size(), Memory::kMapped));
      std::vector<Segment> list;
      const auto* at = data.back()->as<unsigned char>();
      for (const std::uint64_t n : r.counts) {
        list.push_back({at, n});
        at += n * element_size(r.type);
      }
      segments.push_back(std::move(list));
    }
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      new (slots.as<RangeSlot>() + i) RangeSlot;
      RangeSlot& slot = slots.as<RangeSlot>()[i];
      device::Scan job;
      job.segments = segments[i];
      job.stored = job.compute = ranges[i].type;
      job.total = &slot.reduced;
      job.first_bad = &slot.first_bad_segment;
      if (i % 3 == 0) job.per_segment = each[i]->as<GradStats>();
      job.epoch = &g()->step;
      job.stamp = &slot.reduced_step;
      jobs.push_back(job);
    }
  }
  GateBlock* g() const { return block.as<GateBlock>(); }
  RangeSlot& slot(std::size_t i) const { return slots.as<RangeSlot>()[i]; }

  device::Device& device;
  Held block, slots;
  std::vector<std::unique_ptr<Held>> data, each;
  std::vector<std::vector<Segment>> segments;
  std::vector<device::Scan> jobs;
};

std::vector<RangeData> random_ranges(std::size_t n, std::size_t most_segments, std::mt19937_64& random,
                                     int types = 4) {
  std::vector<RangeData> ranges(n);
  for (RangeData& r : ranges) {
    r.type = static_cast<ElementType>(random() % static_cast<unsigned>(types));
    r.counts.resize(random() % (most_segments + 1));
    std::size_t elements = 0;
    for (std::uint64_t& c : r.counts) elements += c = random() % 19 == 0 ? 9000 : random() % 40;
    r.bytes.resize(elements * element_size(r.type));
    for (unsigned char& b : r.bytes) b = static_cast<unsigned char>(random());
    // No NaN: what bits a product with one has is the machine's own.
    for (std::size_t i = element_size(r.type) - 1; i < r.bytes.size(); i += element_size(r.type)) {
      r.bytes[i] &= 0xbb;
    }
  }
  return ranges;
}

void expect_equal(const Side& got, const Side& want, const std::vector<RangeData>& ranges) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bits must agree
    EXPECT_EQ(std::memcmp(&got.slot(i), &want.slot(i), sizeof(RangeSlot)), 0) << "range " << i;
    EXPECT_EQ(std::memcmp(got.data[i]->as<void>(), want.data[i]->as<void>(), ranges[i].bytes.size()), 0)
        << "bytes of range " << i;
    if (i % 3 != 0 || ranges[i].counts.empty()) continue;
    EXPECT_EQ(std::memcmp(got.each[i]->as<void>(), want.each[i]->as<void>(),
                          sizeof(GradStats) * ranges[i].counts.size()),
              0)
        << "segments of range " << i;
  }
}

class CudaRanges : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(cuda_, nullptr); }
  void prepare(const Side& side) {
    for (const device::Scan& job : side.jobs) ASSERT_EQ(cuda_->prepare(job), Code::kOk);
  }
  void scan(Side& side) {
    ASSERT_EQ(side.device.scan_all(nullptr, side.jobs), Code::kOk) << side.device.last_error();
    ASSERT_EQ(side.device.synchronize(nullptr), Code::kOk);
  }

  StandIn standin_;
  std::unique_ptr<device::CudaDevice> cuda_ = standin_.device();
  device::HostDevice host_;
  std::mt19937_64 random_{test_seed()};
};

TEST_F(CudaRanges, HaveTheHostsBits) {
  for (const bool prepared : {true, false}) {
    for (const std::size_t most : {std::size_t{3}, std::size_t{60}, std::size_t{420}}) {
      const auto ranges = random_ranges(most == 420 ? 6 : 40, most, random_);
      Side a(*cuda_, ranges), b(host_, ranges);
      if (prepared) prepare(a);
      for (int again = 0; again < 2; ++again) {  // scratch is left as it was found
        scan(a), scan(b);
        expect_equal(a, b, ranges);
      }
    }
  }
}

TEST_F(CudaRanges, InPlaceAndConditionalTogether) {
  const auto ranges = random_ranges(30, 20, random_);
  Side a(*cuda_, ranges), b(host_, ranges);
  prepare(a);
  for (Side* side : {&a, &b}) {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      device::Scan& job = side->jobs[i];
      if (i % 2 == 0) job.unscale_by = i % 4 == 0 ? &side->g()->latched_scale : &side->g()->scaler.scale;
      job.unless_stamped = i % 3 != 0;
      if (i % 5 == 0) side->slot(i).reduced_step = 5;  // scanned already
    }
    side->g()->scaler.scale = 0.75;
  }
  scan(a), scan(b);
  expect_equal(a, b, ranges);
  ++a.g()->step, ++b.g()->step;
  scan(a), scan(b);
  expect_equal(a, b, ranges);
  EXPECT_EQ(a.slot(0).reduced_step, 6u);
}

// Fifty buckets of one type: two launches, nothing else.
TEST_F(CudaRanges, FiftyRangesTakeTwoLaunches) {
  std::vector<RangeData> ranges = random_ranges(50, 1, random_, 1);
  for (RangeData& r : ranges) r.counts = {5}, r.bytes.resize(20);
  Side a(*cuda_, ranges), b(host_, ranges);
  prepare(a);
  const JobStream current(standin_);
  standin_.control().forget_calls();
  ASSERT_EQ(cuda_->scan_all(nullptr, a.jobs), Code::kOk);
  EXPECT_LE(standin_.count("cuLaunchKernel"), 2u);
  EXPECT_EQ(standin_.count("cuCtxGetCurrent"), 1u);
  EXPECT_EQ(standin_.calls().size(), 1 + standin_.count("cuLaunchKernel"));
  for (const standin::CallRecord& c : standin_.calls()) EXPECT_EQ(c.waited, 0) << c.name;
  ASSERT_EQ(cuda_->synchronize(nullptr), Code::kOk);
  scan(b);
  expect_equal(a, b, ranges);
}

// Two scans into one total share scratch: one after another, with the later one's result.
TEST_F(CudaRanges, ATotalTwiceIsTwoLaunches) {
  auto ranges = random_ranges(2, 5, random_, 1);
  Side a(*cuda_, ranges), b(host_, ranges);
  prepare(a);
  a.jobs[1].total = a.jobs[0].total;
  b.jobs[1].total = b.jobs[0].total;
  const device::Scan larger = a.jobs[1];
  ASSERT_EQ(cuda_->prepare(larger), Code::kOk);
  standin_.control().forget_calls();
  scan(a), scan(b);
  EXPECT_EQ(standin_.count("cuLaunchKernel"), 2u);
  expect_equal(a, b, ranges);
}

// A launch that fails leaves the next call right.
TEST_F(CudaRanges, AFailureLeavesNothingBehind) {
  const auto ranges = random_ranges(60, 30, random_);
  Side b(host_, ranges);
  scan(b);
  for (std::uint64_t launch = 0;; ++launch) {
    Side a(*cuda_, ranges);
    prepare(a);
    standin_.control().fail("cuLaunchKernel", launch, 719, 1);
    const Code code = cuda_->scan_all(nullptr, a.jobs);
    if (standin_.control().faults_hit() == 0) break;
    EXPECT_EQ(code, Code::kDriver) << launch;
    std::size_t unstamped = 0;
    EXPECT_EQ(cuda_->synchronize(nullptr), Code::kOk);
    for (std::size_t i = 0; i < ranges.size(); ++i) unstamped += a.slot(i).reduced_step != 5;
    EXPECT_GT(unstamped, 0u) << launch;
    scan(a);
    expect_equal(a, b, ranges);
  }
  standin_.control().heal();
  EXPECT_EQ(cuda_->synchronize(nullptr), Code::kOk);
}

TEST_F(CudaRanges, ProductsOfManyBuffersInFewLaunches) {
  const auto ranges = random_ranges(200, 3, random_, 1);
  Side a(*cuda_, ranges), b(host_, ranges);
  for (Side* side : {&a, &b}) {
    std::vector<device::Apply> jobs;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      device::Apply job;
      job.data = side->data[i]->as<void>();
      job.count = ranges[i].bytes.size() / 4;
      job.outputs = &side->g()->sets[i == 150].outputs;
      jobs.push_back(job);
    }
    side->g()->sets[0].outputs.found_inf = 0;
    side->g()->sets[0].outputs.multiplier = 0.3f;
    side->g()->sets[1].outputs.found_inf = 1;
    standin_.control().forget_calls();
    ASSERT_EQ(side->device.apply_all(nullptr, jobs), Code::kOk);
    if (side == &a) {
      EXPECT_LE(standin_.count("cuLaunchKernel"), 4u);  // another decision in between
    }
  }
  ASSERT_EQ(cuda_->synchronize(nullptr), Code::kOk);
  expect_equal(a, b, ranges);
}

}  // namespace
}  // namespace stepgate::test

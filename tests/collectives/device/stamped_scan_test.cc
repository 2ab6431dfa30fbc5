// HostDevice: stamps, scans that a stamp stops, scans in place, several at once, absorbed updates, marks.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "collectives/device/host/host_device.h"
#include "tests/collectives/device/scan_oracle.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

using device::Code;
using device::HostDevice;
using device::Scan;
using device::Segment;

TEST(StampedScan, WritesTheEpochAndIsStoppedByIt) {
  HostDevice host;
  const float data[] = {1, 2};
  const Segment segment{data, 2};
  std::uint64_t epoch = 3, stamp = kNeverScanned;
  GradStats total;
  Scan job;
  job.segments = {&segment, 1};
  job.total = &total;
  job.epoch = &epoch;
  job.stamp = &stamp;
  for (const bool conditional : {true, false, true}) {
    job.unless_stamped = conditional;
    total.sum_squares = -1;
    const bool stops = conditional && stamp == epoch;
    ASSERT_EQ(host.scan(nullptr, job), Code::kOk);
    EXPECT_EQ(total.sum_squares, stops ? -1 : 5);
    EXPECT_EQ(stamp, 3u);
  }
  ++epoch;
  ASSERT_EQ(host.scan(nullptr, job), Code::kOk);
  EXPECT_EQ(stamp, 4u);
  EXPECT_EQ(total.sum_squares, 5);
  job.epoch = nullptr;
  EXPECT_EQ(host.scan(nullptr, job), Code::kInvalid);
  job.stamp = nullptr;
  EXPECT_EQ(host.scan(nullptr, job), Code::kInvalid) << "unless_stamped needs both";
}

class ScanInPlace : public testing::TestWithParam<ElementType> {};

// Statistics of what was, products of what is, and an inf for every product that is none.
TEST_P(ScanInPlace, CountsBeforeAndWritesProducts) {
  std::mt19937_64 random(test_seed());
  const ElementType t = GetParam();
  for (const double scale : {65536.0, 0.37, 3.0}) {
    Elements e = healthy(t, 8192 + 77, random);
    e[5] = infinity_bits(t);
    e[6] = infinity_bits(t) | sign_bit(t);
    e[7] = nan_bits(t);
    e[8] = largest_bits(t);
    e[9] = 1;
    const GradStats before = oracle_scan(t, ElementType::kFp16, e);
    std::vector<unsigned char> memory = pack(t, e);
    const Segment segment{memory.data(), e.size()};
    GradStats total;
    Scan job;
    job.segments = {&segment, 1};
    job.stored = t;
    job.total = &total;
    job.unscale_by = &scale;
    HostDevice host;
    ASSERT_EQ(host.scan(nullptr, job), Code::kOk);
    const auto m = static_cast<float>(1.0 / scale);
    const Elements after = unpack(t, memory.data(), e.size());
    std::uint64_t inf = 0;
    for (std::size_t i = 0; i < e.size(); ++i) {
      const std::uint64_t want = oracle_product(t, e[i], m);
      const auto magnitude = after[i] & ~sign_bit(t);
      inf += magnitude == infinity_bits(t);
      if ((e[i] & ~sign_bit(t)) > infinity_bits(t)) {
        EXPECT_GT(magnitude, infinity_bits(t)) << "a NaN stays one";
      } else {
        ASSERT_EQ(after[i], want) << i;
      }
    }
    GradStats want = before;
    want.inf = inf;
    EXPECT_EQ(difference(total, want), "") << scale;
    EXPECT_EQ(inf, scale < 1 ? 3u : 2u) << "the largest value times 2.7 is not finite";
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ScanInPlace, testing::ValuesIn(kStoredTypes),
                         [](const auto& one) { return type_label(one.param); });

TEST(SeveralScans, AreEachScansOwn) {
  HostDevice host;
  const float a[] = {1, 2}, b[] = {3, INFINITY};
  const Segment first{a, 2}, second{b, 2};
  GradStats totals[2];
  std::int32_t bad[2] = {7, 7};
  std::vector<Scan> jobs(2);
  jobs[0].segments = {&first, 1};
  jobs[1].segments = {&second, 1};
  for (int i = 0; i < 2; ++i) jobs[static_cast<std::size_t>(i)].total = &totals[i];
  for (int i = 0; i < 2; ++i) jobs[static_cast<std::size_t>(i)].first_bad = &bad[i];
  ASSERT_EQ(host.scan_all(nullptr, jobs), Code::kOk);
  EXPECT_EQ(totals[0].sum_squares, 5);
  EXPECT_EQ(totals[1].sum_squares, 9);
  EXPECT_EQ(bad[0], -1);
  EXPECT_EQ(bad[1], 0);
  jobs[1].total = nullptr;
  jobs[1].first_bad = nullptr;
  EXPECT_EQ(host.scan_all(nullptr, jobs), Code::kInvalid);
}

TEST(SeveralProducts, AreEachBuffersOwn) {
  HostDevice host;
  float a[] = {1, 2}, b[] = {4};
  Outputs outputs, skipped;
  outputs.found_inf = 0;
  outputs.multiplier = 0.5f;
  const device::Apply jobs[] = {{.data = a, .count = 2, .outputs = &outputs},
                                {.data = b, .count = 1, .outputs = &skipped}};
  ASSERT_EQ(host.apply_all(nullptr, jobs), Code::kOk);
  EXPECT_EQ(a[0], 0.5f);
  EXPECT_EQ(a[1], 1.0f);
  EXPECT_EQ(b[0], 4.0f);
}

TEST(ObserveUpdate, CountsUpdatesThatChangeNothing) {
  HostDevice host;
  const float before[] = {1, 1, 1, 0.0f, 2};
  const float after[] = {1, 2, 1, -0.0f, 2};
  const float update[] = {1e-9f, 1, 0.0f, 1e-30f, -0.0f};
  device::UpdateStats total{9, 9, 9};
  const device::ObserveUpdate job{before, after, update, 5, ElementType::kFp32, &total};
  ASSERT_EQ(host.observe_update(nullptr, job), Code::kOk);
  EXPECT_EQ(total.elements, 5u);
  EXPECT_EQ(total.updates, 3u) << "a zero of either sign is none";
  EXPECT_EQ(total.absorbed, 1u) << "0 and -0 differ in bits";
  device::ObserveUpdate bad = job;
  bad.stored = ElementType::kFp8E4M3;
  EXPECT_EQ(host.observe_update(nullptr, bad), Code::kUnsupported);
  bad = job;
  bad.update = nullptr;
  EXPECT_EQ(host.observe_update(nullptr, bad), Code::kInvalid);
  bad.total = nullptr;
  EXPECT_EQ(host.observe_update(nullptr, bad), Code::kInvalid);
}

TEST(HostOrder, EverythingHasRunAlready) {
  HostDevice host;
  const device::Mark mark = host.create_mark();
  EXPECT_NE(mark, nullptr);
  EXPECT_EQ(host.record(nullptr, mark), Code::kOk);
  EXPECT_EQ(host.wait(nullptr, mark), Code::kOk);
  host.release_mark(mark);
  EXPECT_EQ(host.capture_state(nullptr), device::CaptureState::kNone);
  EXPECT_TRUE(host.reaches(&host));
  EXPECT_TRUE(host.immediate());
}

}  // namespace
}  // namespace stepgate::test

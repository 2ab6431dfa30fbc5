// Several segments in one scan: totals, the order over segments, who is blamed, what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "collectives/device/host/host_device.h"
#include "collectives/device/host/kernels.h"
#include "tests/collectives/device/scan_oracle.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

using device::Code;
using device::HostDevice;
using device::Scan;
using device::Segment;

struct Range {
  ElementType type;
  std::vector<Elements> elements;
  std::vector<std::vector<unsigned char>> bytes;
  std::vector<Segment> segments;

  void add(const Elements& e, std::size_t offset) {
    elements.push_back(e);
    bytes.push_back(pack(type, e, offset));
    segments.push_back({bytes.back().data() + offset, e.size()});
  }
};

GradStats oracle_total(const Range& r, ElementType compute) {
  GradStats total;
  PairwiseSum squares;
  for (const Elements& e : r.elements) {
    const GradStats s = oracle_scan(r.type, compute, e);
    add_counts(total, s);
    squares.push(s.sum_squares);
  }
  total.sum_squares = squares.total();
  return total;
}

Range random_range(ElementType t, std::size_t segments, std::mt19937_64& random) {
  Range r{t, {}, {}, {}};
  for (std::size_t i = 0; i < segments; ++i) {
    const std::size_t n = i % 5 == 3 ? 0 : random() % (i % 7 == 0 ? 20000 : 300);
    r.add(healthy(t, n, random), random() % 16);
  }
  return r;
}

TEST(ScanSegments, TotalsAndEachSegment) {
  std::mt19937_64 random(test_seed());
  for (const auto* table : device::host::runnable_kernels()) {
    for (const ElementType t : kStoredTypes) {
      for (const std::size_t n : {0, 1, 2, 3, 7, 64, 101}) {
        const Range r = random_range(t, n, random);
        HostDevice host(*table);
        GradStats total;
        std::vector<GradStats> each(n);
        std::int32_t first_bad = 77;
        ASSERT_EQ(host.scan(nullptr, {.segments = r.segments,
                                      .stored = t,
                                      .total = &total,
                                      .per_segment = each.data(),
                                      .first_bad = &first_bad}),
                  Code::kOk);
        EXPECT_EQ(difference(total, oracle_total(r, ElementType::kFp16)), "") << table->name << ' ' << n;
        for (std::size_t i = 0; i < n; ++i) {
          EXPECT_EQ(difference(each[i], oracle_scan(t, ElementType::kFp16, r.elements[i])), "") << i;
        }
        EXPECT_EQ(first_bad, -1);
      }
    }
  }
}

TEST(ScanSegments, NamesTheFirstBadOne) {
  std::mt19937_64 random(test_seed());
  for (const std::uint64_t stranger : {nan_bits(ElementType::kBf16), infinity_bits(ElementType::kBf16)}) {
    Range r{ElementType::kBf16, {}, {}, {}};
    for (int i = 0; i < 9; ++i) {
      Elements e = healthy(r.type, 500, random);
      if (i == 4 || i == 7) e[499] = stranger;
      r.add(e, 2);
    }
    HostDevice host;
    std::int32_t first_bad = -1;
    ASSERT_EQ(host.scan(nullptr, {.segments = r.segments, .stored = r.type, .first_bad = &first_bad}),
              Code::kOk);
    EXPECT_EQ(first_bad, 4);
  }
}

TEST(ScanSegments, NothingAtAllIsZero) {
  HostDevice host;
  GradStats total;
  total.inf = 5;
  std::int32_t first_bad = 5;
  ASSERT_EQ(host.scan(nullptr, {.segments = {}, .total = &total, .first_bad = &first_bad}), Code::kOk);
  EXPECT_EQ(difference(total, GradStats()), "");
  EXPECT_EQ(first_bad, -1);
  const Segment empty{nullptr, 0};
  ASSERT_EQ(host.scan(nullptr, {.segments = {&empty, 1}, .total = &total}), Code::kOk);
  EXPECT_EQ(difference(total, GradStats()), "");
}

TEST(ScanSegments, RefusesWhatItCannotDo) {
  HostDevice host;
  const float value = 1;
  const Segment good{&value, 1};
  const Segment null{nullptr, 3};
  GradStats total;
  total.inf = 99;
  const auto refused = [&](const Scan& job, Code code, const char* text) {
    EXPECT_EQ(host.scan(nullptr, job), code);
    EXPECT_NE(std::string(host.last_error()).find(text), std::string::npos) << host.last_error();
    EXPECT_EQ(total.inf, 99u);
  };
  refused({.segments = {&good, 1}, .stored = static_cast<ElementType>(17), .total = &total},
          Code::kUnsupported, "17");
  refused({.segments = {&good, 1}, .compute = static_cast<ElementType>(6), .total = &total}, Code::kInvalid,
          "compute type 6");
  refused({.segments = {&null, 1}, .total = &total}, Code::kInvalid, "segment 0");
  refused({.segments = {&good, 1}}, Code::kInvalid, "all null");
}

TEST(ScanSegments, JudgesAgainstFp8) {
  HostDevice host;
  const float values[] = {0x1p-7f, 0x1p-6f, 448.0f, 449.0f, 57344.0f, 57345.0f, 0};
  const Segment segment{values, 7};
  GradStats s;
  ASSERT_EQ(host.scan(nullptr, {.segments = {&segment, 1}, .compute = ElementType::kFp8E4M3, .total = &s}),
            Code::kOk);
  EXPECT_EQ(s.subnormals, 1u);
  EXPECT_EQ(s.overranges, 3u);
  ASSERT_EQ(host.scan(nullptr, {.segments = {&segment, 1}, .compute = ElementType::kFp8E5M2, .total = &s}),
            Code::kOk);
  EXPECT_EQ(s.subnormals, 0u);
  EXPECT_EQ(s.overranges, 1u);
}

TEST(ScanSegments, SumThatFp64CannotHoldIsInfinity) {
  HostDevice host;
  const std::vector<double> values(3, 1e200);
  const Segment segment{values.data(), values.size()};
  GradStats s;
  ASSERT_EQ(host.scan(nullptr, {.segments = {&segment, 1}, .stored = ElementType::kFp64, .total = &s}),
            Code::kOk);
  EXPECT_EQ(s.sum_squares, std::numeric_limits<double>::infinity());
  EXPECT_EQ(s.abs_max, 1e200);
  EXPECT_EQ(s.inf, 0u);
  EXPECT_EQ(s.overranges, 3u);
}

// Against long double: the sum of squares within 4e-6, so the norm within 2e-6; the norm of ordinary
// gradients within 1e-6.
class ScanAccuracy : public testing::TestWithParam<ElementType> {
 protected:
  void check(const Elements& e, double tolerance_sum, double tolerance_norm) {
    const auto bytes = pack(GetParam(), e);
    const Segment segment{bytes.data(), e.size()};
    GradStats s;
    HostDevice host;
    ASSERT_EQ(host.scan(nullptr, {.segments = {&segment, 1}, .stored = GetParam(), .total = &s}), Code::kOk);
    long double exact = 0;
    for (const std::uint64_t bits : e) {
      const long double x = decode(GetParam(), bits);
      exact += x * x;
    }
    EXPECT_LE(std::fabs(s.sum_squares - exact), tolerance_sum * exact);
    EXPECT_LE(std::fabs(std::sqrt(static_cast<long double>(s.sum_squares)) - std::sqrt(exact)),
              tolerance_norm * std::sqrt(exact));
  }
};

TEST_P(ScanAccuracy, OrdinaryGradients) {
  std::mt19937_64 random(test_seed());
  for (const std::size_t n : {100, 8192, 300000}) check(healthy(GetParam(), n, random), 4e-6, 1e-6);
}

TEST_P(ScanAccuracy, OneValueOverAndOver) {
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 50; ++i) {
    const double x =
        std::ldexp(1.0 + static_cast<double>(random() % 4096) / 4096, -static_cast<int>(random() % 12));
    check(Elements(20000, encode(GetParam(), x)), 4e-6, 1e-6);
  }
}

TEST_P(ScanAccuracy, ValuesOverTheWholeRange) {
  std::mt19937_64 random(test_seed());
  Elements e;
  for (int i = 0; i < 100000; ++i) {
    std::uint64_t bits = any_bits(GetParam(), 1, random)[0];
    const bool squares_fit = GetParam() != ElementType::kFp64 || std::fabs(decode(GetParam(), bits)) < 1e150;
    if (std::isfinite(decode(GetParam(), bits)) && squares_fit) e.push_back(bits);
  }
  check(e, 4e-6, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Types, ScanAccuracy, testing::ValuesIn(kStoredTypes),
                         [](const auto& tested) { return type_label(tested.param); });

}  // namespace
}  // namespace stepgate::test

// The scan kernels against HostDevice: every figure equal in bits, for any input, grid and group size.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "tests/collectives/device/scan_oracle.h"
#include "tests/collectives/device_cuda/kernel_runs.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

using device::Segment;

class ScanKernels : public testing::TestWithParam<ElementType> {
 protected:
  ElementType stored() const { return GetParam(); }
  std::size_t bytes() const { return element_size(stored()); }

  // Packs the elements one element behind a 64-byte boundary, or on it, and compares.
  void expect_equal(const Elements& e, ElementType compute = ElementType::kFp16, ScanShape shape = {}) {
    for (const std::size_t skip : {std::size_t{0}, bytes()}) {
      const std::vector<unsigned char> memory = pack(stored(), e, skip);
      const std::vector<Segment> segments = {{memory.data() + skip, e.size()}};
      const ScanResult want = scan_on_host(stored(), compute, segments);
      EXPECT_EQ(difference(scan_on_standin(stored(), compute, segments, shape), want), "")
          << e.size() << " elements, " << skip << " bytes off, compute type " << type_label(compute);
    }
  }

  // Columns of magnitudes so far apart that fp64 rounds at nearly every addition of the tree: another
  // order gives other bits.
  Elements spread(std::size_t n) {
    const int reach = stored() == ElementType::kFp16 ? 13 : 40;
    std::array<int, kUnitColumns> exponents;
    for (int& e : exponents) e = static_cast<int>(random_() % (2 * static_cast<unsigned>(reach))) - reach;
    std::vector<double> values(n);
    for (std::size_t i = 0; i < n; ++i) {
      const double mantissa = 1 + std::ldexp(static_cast<double>(random_() % 65536), -16);
      values[i] = std::ldexp(random_() % 2 == 0 ? mantissa : -mantissa, exponents[i % kUnitColumns]);
    }
    return encode_all(stored(), values);
  }

  std::mt19937_64 random_{test_seed()};
};

TEST_P(ScanKernels, SmallCounts) {
  for (std::size_t n = 0; n <= 70; ++n) expect_equal(any_bits(stored(), n, random_));
}

TEST_P(ScanKernels, RowsAndUnits) {
  for (const std::size_t n : {255, 256, 257, 511, 513, 8191, 8192, 8193, 16384, 16385}) {
    expect_equal(spread(n));
  }
  for (const std::size_t n : {8191, 8192, 8193}) expect_equal(any_bits(stored(), n, random_));
}

// Units that begin anywhere between two 16-byte boundaries.
TEST_P(ScanKernels, EveryAlignment) {
  Elements e = spread(2 * 8192 + 5);
  e[0] = e[8191] = e[8192] = 1;
  for (std::size_t skip = 0; skip < 16; skip += bytes()) {
    const std::vector<unsigned char> memory = pack(stored(), e, skip);
    const std::vector<Segment> segments = {{memory.data() + skip, e.size()}};
    const ScanResult want = scan_on_host(stored(), ElementType::kFp32, segments);
    EXPECT_EQ(difference(scan_on_standin(stored(), ElementType::kFp32, segments, {}), want), "") << skip;
  }
}

TEST_P(ScanKernels, EveryComputeType) {
  const Elements wild = any_bits(stored(), 3000, random_);
  const Elements calm = healthy(stored(), 9000, random_);
  for (std::uint32_t c = 0; c < kElementTypeCount; ++c) {
    expect_equal(wild, static_cast<ElementType>(c));
    expect_equal(calm, static_cast<ElementType>(c));
  }
}

TEST_P(ScanKernels, OneElementFillsAll) {
  const std::uint64_t sign = sign_bit(stored());
  const std::uint64_t infinity = infinity_bits(stored());
  const std::uint64_t values[] = {0,
                                  sign,
                                  1,
                                  sign | 3,
                                  infinity - 1,
                                  (infinity - 1) | sign,
                                  infinity,
                                  infinity | sign,
                                  nan_bits(stored())};
  for (const std::uint64_t v : values) {
    SCOPED_TRACE(v);
    expect_equal(Elements(8192 + 300, v));
  }
}

// Subnormals of every size, of the stored type and of the compute type, and one normal among them.
TEST_P(ScanKernels, AllSubnormal) {
  for (const ElementType compute : {stored(), ElementType::kFp16}) {
    const double smallest = smallest_normal(compute);
    std::vector<double> values(8192 + 300);
    for (double& v : values) v = smallest * (static_cast<double>(random_() % 4095 + 1) / 4096);
    Elements e = encode_all(stored(), values);
    expect_equal(e, compute);
    e[8192 + 13] = encode(stored(), 2 * smallest);
    expect_equal(e, compute);
  }
}

TEST_P(ScanKernels, OneBadElementAnywhere) {
  const std::uint64_t infinity = infinity_bits(stored());
  const std::uint64_t bad[] = {infinity,
                               infinity | sign_bit(stored()),
                               nan_bits(stored()),
                               infinity + 1,
                               ~std::uint64_t{0} & (sign_bit(stored()) * 2 - 1),
                               infinity - 1};
  const std::size_t n = 2 * 8192 + 77;
  const Elements calm = healthy(stored(), n, random_);
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{1}, std::size_t{8191}, std::size_t{8192 + 13}, n - 1}) {
    for (const std::uint64_t b : bad) {
      SCOPED_TRACE(at);
      Elements e = calm;
      e[at] = b;
      expect_equal(e);
    }
  }
}

// The limits of what fp32 columns hold, from both sides.
TEST_P(ScanKernels, SquaresNearTheLimits) {
  for (const double x : {0x1p60, 0x1.02p60, 0x1.fep59, 0x1p-50, 0x1.fep-51, 0x1.02p-50, 65504.0, 65536.0}) {
    Elements e = encode_all(stored(), std::vector<double>(8192 + 9, x));
    expect_equal(e);
    e[17] = 0;
    expect_equal(e);
  }
}

TEST_P(ScanKernels, AnyGridAndGroupSize) {
  Elements e = spread(19 * 8192 + 4321);
  e[5 * 8192 + 3] = infinity_bits(stored());
  for (const ScanShape& shape : kScanShapes) {
    SCOPED_TRACE(testing::Message() << shape.grid << " blocks of " << shape.block << ", 2^"
                                    << shape.group_log2);
    expect_equal(e, ElementType::kFp16, shape);
  }
}

// More than one bundle of groups in one segment, and a bundle that is not full.
TEST_P(ScanKernels, SeveralBundles) {
  expect_equal(spread(131 * 8192 + 1), ElementType::kFp16, {4, 64, 0});
}

TEST_P(ScanKernels, SeveralGroupsOf64Units) {
  expect_equal(spread((2 * 64 + 1) * 8192 + 100), ElementType::kFp16, {2, 64, 6});
}

// Segments of every size, empty ones too, in several launches; odd ones are misaligned.
TEST_P(ScanKernels, ManySegments) {
  std::vector<std::vector<unsigned char>> memory;
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < 2 * cuda::kSegmentsPerLaunch + 11; ++i) {
    const std::size_t n = i % 50 == 7 ? 8192 + random_() % 20000 : random_() % 90;
    const std::size_t skip = i % 2 * bytes();
    Elements e = spread(n);
    if (n != 0 && (i == 230 || i == 300)) e[n / 2] = nan_bits(stored());
    memory.push_back(pack(stored(), e, skip));
    segments.push_back({memory.back().data() + skip, n});
  }
  const ScanResult want = scan_on_host(stored(), ElementType::kFp16, segments);
  for (const ScanShape& shape : {ScanShape{3, 64, 0}, ScanShape{1, 96, 1}}) {
    EXPECT_EQ(difference(scan_on_standin(stored(), ElementType::kFp16, segments, shape), want), "");
  }
}

TEST_P(ScanKernels, NoSegment) {
  const ScanResult want = scan_on_host(stored(), ElementType::kFp16, {});
  EXPECT_EQ(difference(scan_on_standin(stored(), ElementType::kFp16, {}, {}), want), "");
}

INSTANTIATE_TEST_SUITE_P(Types, ScanKernels, testing::ValuesIn(kStoredTypes),
                         [](const auto& one) { return type_label(one.param); });

}  // namespace
}  // namespace stepgate::test

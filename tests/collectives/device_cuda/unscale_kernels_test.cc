// The in-place scan kernels against HostDevice: the statistics and what is left in memory, bit for bit.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/collectives/device/scan_oracle.h"
#include "tests/collectives/device_cuda/kernel_runs.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

constexpr std::size_t kMargin = 32;  // bytes around a buffer that nobody may touch

class UnscaleKernels : public testing::TestWithParam<ElementType> {
 protected:
  ElementType stored() const { return GetParam(); }
  std::size_t bytes() const { return element_size(stored()); }

  std::vector<unsigned char> placed(const Elements& e, std::size_t skip) const {
    std::vector<unsigned char> memory(kMargin + skip, 0x5a);
    const std::vector<unsigned char> packed = pack(stored(), e);
    memory.insert(memory.end(), packed.begin(), packed.end());
    memory.resize(memory.size() + kMargin, 0x5a);
    return memory;
  }

  // What bits a NaN has after a product is the machine's own.
  void unify_nans(std::vector<unsigned char>& memory, std::size_t at, std::size_t n) const {
    for (std::size_t i = 0; i < n; ++i) {
      unsigned char* p = memory.data() + at + i * bytes();
      std::uint64_t x = 0;
      std::memcpy(&x, p, bytes());
      if ((x & ~sign_bit(stored())) <= infinity_bits(stored())) continue;
      x = nan_bits(stored());
      std::memcpy(p, &x, bytes());
    }
  }

  void expect_equal(const Elements& e, double scale, const ScanShape& shape = {},
                    ElementType compute = ElementType::kFp16) {
    for (const std::size_t skip : {std::size_t{0}, bytes()}) expect_equal_at(e, scale, skip, shape, compute);
  }
  void expect_equal_at(const Elements& e, double scale, std::size_t skip, const ScanShape& shape,
                       ElementType compute) {
    std::vector<unsigned char> want = placed(e, skip);
    std::vector<unsigned char> got = want;
    const std::size_t at = kMargin + skip;
    const ScanResult host = scan_on_host(stored(), compute, {{want.data() + at, e.size()}}, &scale);
    ScanExtras extras;
    extras.unscale_by = &scale;
    const ScanResult kernel =
        scan_on_standin(stored(), compute, {{got.data() + at, e.size()}}, shape, extras);
    EXPECT_EQ(difference(kernel, host), "") << e.size() << " elements, " << skip << " bytes off, " << scale;
    unify_nans(want, at, e.size());
    unify_nans(got, at, e.size());
    EXPECT_TRUE(got == want) << e.size() << " elements, " << skip << " bytes off, " << scale;
  }

  std::mt19937_64 random_{test_seed()};
};

TEST_P(UnscaleKernels, SmallCounts) {
  for (std::size_t n = 0; n <= 70; ++n) {
    expect_equal(any_bits(stored(), n, random_), 65536);
    expect_equal(healthy(stored(), n, random_), 3);
  }
}

TEST_P(UnscaleKernels, EveryAlignmentAndUnits) {
  for (const std::size_t n : {255, 257, 8191, 8192, 8193, 2 * 8192 + 77}) {
    const Elements e = healthy(stored(), n, random_);
    for (std::size_t skip = 0; skip < 16; skip += bytes()) {
      expect_equal_at(e, 1000, skip, {2, 64, 1}, ElementType::kFp16);
    }
  }
}

// Scales whose inverse makes products overflow, vanish, or not be numbers; and 1, which writes nothing.
TEST_P(UnscaleKernels, ScalesFromTinyToLarge) {
  const Elements wild = any_bits(stored(), 9000, random_);
  const Elements calm = healthy(stored(), 9000, random_);
  for (const double scale : {1.0, 65536.0, 0.37, 0x1p-20, 0x1p40, 0x1p-126, 0x1p130, 1e-300}) {
    expect_equal(wild, scale);
    expect_equal(calm, scale);
  }
}

// A finite element whose product is not finite counts as inf, wherever it lies; an inf stays one.
TEST_P(UnscaleKernels, ProductsThatOverflow) {
  const std::uint64_t large = infinity_bits(stored()) - 1;
  const std::size_t n = 2 * 8192 + 77;
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{8191}, std::size_t{8192}, n - 1}) {
    for (const std::uint64_t x :
         {large, large | sign_bit(stored()), large - 1, infinity_bits(stored()), nan_bits(stored())}) {
      Elements e = healthy(stored(), n, random_);
      e[at] = x;
      SCOPED_TRACE(at);
      expect_equal(e, 0.5);
      expect_equal(e, 0.99999994);
      expect_equal(e, 2);
    }
  }
}

TEST_P(UnscaleKernels, OneElementFillsAll) {
  for (const std::uint64_t x : {std::uint64_t{0}, sign_bit(stored()), std::uint64_t{1},
                                infinity_bits(stored()) - 1, infinity_bits(stored()), nan_bits(stored())}) {
    expect_equal(Elements(8192 + 300, x), 0.25);
    expect_equal(Elements(8192 + 300, x), 1024);
  }
}

TEST_P(UnscaleKernels, AnyGridAndGroupSize) {
  Elements e = any_bits(stored(), 9 * 8192 + 4321, random_);
  for (const ScanShape& shape : kScanShapes) expect_equal(e, 7, shape);
}

// The same multiplication as apply's, for every 16-bit value.
TEST_P(UnscaleKernels, EveryHalf) {
  if (bytes() != 2) return;
  Elements e;
  for (std::uint64_t bits = 0; bits < 0x10000; ++bits) e.push_back(bits);
  for (const double scale : {2.7, 1024.0, 0x1p20, 1 / 700.0}) expect_equal(e, scale);
}

INSTANTIATE_TEST_SUITE_P(Types, UnscaleKernels, testing::ValuesIn(kStoredTypes),
                         [](const auto& one) { return type_label(one.param); });

}  // namespace
}  // namespace stepgate::test

// fp8 statistics, which the host does not have, against a scalar reference written from the formats'
// definitions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/collectives/device/scan_oracle.h"
#include "tests/collectives/device_cuda/kernel_runs.h"

namespace stepgate::test {
namespace {

double decode_fp8(ElementType t, unsigned bits) {
  const int mantissa_bits = t == ElementType::kFp8E4M3 ? 3 : 2;
  const int bias = t == ElementType::kFp8E4M3 ? 7 : 15;
  const unsigned magnitude = bits & 0x7f;
  if (t == ElementType::kFp8E4M3 && magnitude == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  if (t == ElementType::kFp8E5M2 && magnitude > 0x7c) return std::numeric_limits<double>::quiet_NaN();
  if (t == ElementType::kFp8E5M2 && magnitude == 0x7c) return std::numeric_limits<double>::infinity();
  const int exponent = static_cast<int>(magnitude >> mantissa_bits);
  const unsigned mantissa = magnitude & ((1u << mantissa_bits) - 1);
  if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return std::ldexp(mantissa + (1u << mantissa_bits), exponent - bias - mantissa_bits);
}

double fold(std::vector<double> v) {
  while (v.size() > 1) {
    std::vector<double> next;
    for (std::size_t i = 0; i < v.size(); i += 2) next.push_back(i + 1 < v.size() ? v[i] + v[i + 1] : v[i]);
    v = next;
  }
  return v.empty() ? 0 : v[0];
}

// A finite fp8 magnitude never leaves what fp32 squares hold: fp64 columns come with inf or NaN alone.
double unit_squares(const std::vector<double>& x) {
  bool finite = true;
  for (const double v : x) finite = finite && std::isfinite(v);
  std::vector<double> wide(kUnitColumns);
  std::vector<float> narrow(kUnitColumns);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i])) continue;
    const auto f = static_cast<float>(x[i]);
    narrow[i % kUnitColumns] = std::fma(f, f, narrow[i % kUnitColumns]);
    wide[i % kUnitColumns] = std::fma(x[i], x[i], wide[i % kUnitColumns]);
  }
  return fold(finite ? std::vector<double>(narrow.begin(), narrow.end()) : wide);
}

GradStats reference(ElementType stored, ElementType compute, const std::vector<unsigned char>& data) {
  GradStats s;
  s.elements = data.size();
  std::vector<double> units;
  for (std::size_t start = 0; start < data.size(); start += kUnitElements) {
    std::vector<double> unit;
    for (std::size_t i = start; i < std::min<std::size_t>(start + kUnitElements, data.size()); ++i) {
      const double x = decode_fp8(stored, data[i]);
      unit.push_back(x);
      s.nan += std::isnan(x);
      s.inf += std::isinf(x);
      if (!std::isfinite(x)) continue;
      s.zeros += x == 0;
      s.subnormals += x != 0 && x < smallest_normal(compute);
      s.overranges += x > largest_finite(compute);
      s.abs_max = std::max(s.abs_max, x);
    }
    units.push_back(unit_squares(unit));
  }
  s.sum_squares = fold(units);
  return s;
}

class ScanFp8 : public testing::TestWithParam<ElementType> {
 protected:
  void expect_equal(const std::vector<unsigned char>& data, ElementType compute, const ScanShape& shape) {
    for (const std::size_t skip : {0, 1, 3}) {
      std::vector<unsigned char> memory(skip, 0x7f);
      memory.insert(memory.end(), data.begin(), data.end());
      const ScanResult got =
          scan_on_standin(GetParam(), compute, {{memory.data() + skip, data.size()}}, shape);
      const GradStats want = reference(GetParam(), compute, data);
      EXPECT_EQ(difference(got.total, want), "") << data.size() << " elements, " << skip << " bytes off";
      EXPECT_EQ(got.first_bad, (want.inf | want.nan) != 0 ? 0 : -1);
    }
  }
  std::vector<unsigned char> random_bytes(std::size_t n, unsigned below) {
    std::vector<unsigned char> data(n);
    for (auto& b : data) b = static_cast<unsigned char>(random_() % below | (random_() % 2) << 7);
    return data;
  }
  std::mt19937_64 random_{test_seed()};
};

TEST_P(ScanFp8, EveryValueAgainstEveryComputeType) {
  std::vector<unsigned char> all;
  for (unsigned v = 0; v < 256; ++v) all.push_back(static_cast<unsigned char>(v));
  std::vector<device::Segment> alone;
  for (const unsigned char& v : all) alone.push_back({&v, 1});
  for (std::uint32_t c = 0; c < kElementTypeCount; ++c) {
    const auto compute = static_cast<ElementType>(c);
    expect_equal(all, compute, {1, 32, 0});
    const ScanResult got = scan_on_standin(GetParam(), compute, alone, {1, 32, 0});
    for (unsigned v = 0; v < 256; ++v) {
      const GradStats want = reference(GetParam(), compute, {static_cast<unsigned char>(v)});
      EXPECT_EQ(difference(got.segments[v], want), "") << v << " for " << type_label(compute);
    }
  }
}

TEST_P(ScanFp8, Sizes) {
  for (const std::size_t n : {0, 7, 8, 9, 255, 257, 8191, 8192, 8193, 3 * 8192 + 5}) {
    expect_equal(random_bytes(n, 0x7c), GetParam(), {2, 64, 1});  // finite in both formats
    expect_equal(random_bytes(n, 0x80), GetParam(), {3, 64, 0});
  }
}

TEST_P(ScanFp8, EveryAlignment) {
  const std::vector<unsigned char> data = random_bytes(2 * 8192 + 3, 0x7c);
  const GradStats want = reference(GetParam(), ElementType::kFp16, data);
  for (std::size_t skip = 0; skip < 8; ++skip) {
    std::vector<unsigned char> memory(skip, 0x7f);
    memory.insert(memory.end(), data.begin(), data.end());
    const ScanResult got =
        scan_on_standin(GetParam(), ElementType::kFp16, {{memory.data() + skip, data.size()}}, {});
    EXPECT_EQ(difference(got.total, want), "") << skip;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ScanFp8, testing::Values(ElementType::kFp8E4M3, ElementType::kFp8E5M2),
                         [](const auto& one) { return type_label(one.param); });

}  // namespace
}  // namespace stepgate::test

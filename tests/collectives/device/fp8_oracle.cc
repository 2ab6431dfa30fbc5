#include "tests/collectives/device/fp8_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/collectives/device/scan_oracle.h"

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

}  // namespace

GradStats fp8_reference(ElementType stored, ElementType compute, const std::vector<unsigned char>& data) {
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

}  // namespace stepgate::test

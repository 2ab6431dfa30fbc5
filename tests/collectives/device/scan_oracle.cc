#include "tests/collectives/device/scan_oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sstream>

namespace stepgate::test {
namespace {

struct Layout {
  int exponent_bits;
  int mantissa_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint64_t exponent_mask() const { return (std::uint64_t{1} << exponent_bits) - 1; }
  std::uint64_t mantissa_mask() const { return (std::uint64_t{1} << mantissa_bits) - 1; }
};

Layout layout(ElementType t) {
  switch (t) {
    case ElementType::kFp16: return {5, 10};
    case ElementType::kBf16: return {8, 7};
    case ElementType::kFp64: return {11, 52};
    default: return {8, 23};
  }
}

bool holds_in_fp32(double abs_max) {
  return abs_max == 0 || (abs_max >= kFp32SquaresMin && abs_max <= kFp32SquaresMax);
}

double unit_squares(ElementType stored, const std::vector<double>& unit) {
  bool finite = true;
  double abs_max = 0;
  for (const double x : unit) {
    finite = finite && std::isfinite(x);
    if (std::isfinite(x)) abs_max = std::max(abs_max, std::fabs(x));
  }
  const bool narrow = stored != ElementType::kFp64 && finite && holds_in_fp32(abs_max);
  std::vector<double> columns(kUnitColumns, 0.0);
  for (std::size_t i = 0; i < unit.size(); ++i) {
    double& column = columns[i % kUnitColumns];
    if (narrow) {
      const auto x = static_cast<float>(unit[i]);
      column = std::fma(x, x, static_cast<float>(column));
    } else if (std::isfinite(unit[i])) {
      column = std::fma(unit[i], unit[i], column);
    }
  }
  return fold(columns);
}

void count_element(double x, ElementType compute, GradStats& s) {
  const double magnitude = std::fabs(x);
  s.inf += std::isinf(x);
  s.nan += std::isnan(x);
  if (!std::isfinite(x)) return;
  s.zeros += x == 0;
  s.subnormals += x != 0 && magnitude < smallest_normal(compute);
  s.overranges += magnitude > largest_finite(compute);
  s.abs_max = std::max(s.abs_max, magnitude);
}

}  // namespace

double fold(std::vector<double> sums) {
  while (sums.size() > 1) {
    std::vector<double> next;
    for (std::size_t i = 0; i + 1 < sums.size(); i += 2) next.push_back(sums[i] + sums[i + 1]);
    if (sums.size() % 2 != 0) next.push_back(sums.back());
    sums = next;
  }
  return sums.empty() ? 0.0 : sums[0];
}

std::string type_label(ElementType t) {
  static const char* const kNames[] = {"fp32", "fp16", "bf16", "fp64", "fp8_e4m3", "fp8_e5m2"};
  return kNames[static_cast<std::uint32_t>(t)];
}

std::uint64_t sign_bit(ElementType t) {
  return std::uint64_t{1} << (element_size(t) * 8 - 1);
}

std::uint64_t infinity_bits(ElementType t) {
  const Layout l = layout(t);
  return l.exponent_mask() << l.mantissa_bits;
}

std::uint64_t nan_bits(ElementType t) {
  return infinity_bits(t) | (std::uint64_t{1} << (layout(t).mantissa_bits - 1));
}

std::uint64_t largest_bits(ElementType t) {
  return infinity_bits(t) - 1;
}

double decode(ElementType t, std::uint64_t bits) {
  const Layout l = layout(t);
  const double sign = (bits & sign_bit(t)) != 0 ? -1.0 : 1.0;
  const auto exponent = static_cast<int>((bits >> l.mantissa_bits) & l.exponent_mask());
  const std::uint64_t mantissa = bits & l.mantissa_mask();
  if (static_cast<std::uint64_t>(exponent) == l.exponent_mask()) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const std::uint64_t whole = exponent == 0 ? mantissa : mantissa | (l.mantissa_mask() + 1);
  const int power = (exponent == 0 ? 1 : exponent) - l.bias() - l.mantissa_bits;
  return sign * std::ldexp(static_cast<double>(whole), power);
}

std::uint64_t encode(ElementType t, double value) {
  const Layout l = layout(t);
  if (std::isnan(value)) return nan_bits(t);
  const std::uint64_t sign = std::signbit(value) ? sign_bit(t) : 0;
  if (std::isinf(value)) return sign | infinity_bits(t);
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude in [2^(exponent-1), 2^exponent)
  const int power = std::max(exponent - 1, 1 - l.bias()) - l.mantissa_bits;
  // In units of the last place; up to 2^(mantissa_bits + 1), where the next exponent begins: the sum
  // below carries into it, and from the largest one into infinity.
  const auto places = static_cast<std::uint64_t>(std::nearbyint(std::ldexp(magnitude, -power)));
  const auto field = static_cast<std::uint64_t>(power + l.mantissa_bits + l.bias() - 1);
  const std::uint64_t bits = (field << l.mantissa_bits) + places;
  return sign | std::min(bits, infinity_bits(t));
}

Elements encode_all(ElementType t, const std::vector<double>& values) {
  Elements e;
  for (const double v : values) e.push_back(encode(t, v));
  return e;
}

std::vector<unsigned char> pack(ElementType t, const Elements& e, std::size_t offset) {
  const std::size_t size = element_size(t);
  std::vector<unsigned char> bytes(offset + e.size() * size, 0xee);
  for (std::size_t i = 0; i < e.size(); ++i) std::memcpy(bytes.data() + offset + i * size, &e[i], size);
  return bytes;
}

Elements unpack(ElementType t, const unsigned char* data, std::size_t count) {
  const std::size_t size = element_size(t);
  Elements e(count, 0);
  for (std::size_t i = 0; i < count; ++i) std::memcpy(&e[i], data + i * size, size);
  return e;
}

GradStats oracle_scan(ElementType stored, ElementType compute, const Elements& e) {
  GradStats s;
  s.elements = e.size();
  std::vector<double> units;
  for (std::size_t start = 0; start < e.size(); start += kUnitElements) {
    std::vector<double> unit;
    for (std::size_t i = start; i < std::min<std::size_t>(start + kUnitElements, e.size()); ++i) {
      unit.push_back(decode(stored, e[i]));
      count_element(unit.back(), compute, s);
    }
    units.push_back(unit_squares(stored, unit));
  }
  s.sum_squares = fold(units);
  return s;
}

std::uint64_t oracle_product(ElementType t, std::uint64_t bits, float multiplier) {
  const double x = decode(t, bits);
  if (t == ElementType::kFp64) return std::bit_cast<std::uint64_t>(x * multiplier);
  return encode(t, static_cast<float>(x) * multiplier);
}

Elements healthy(ElementType t, std::size_t n, std::mt19937_64& random) {
  std::normal_distribution<double> values(0.0, 0x1p-10);
  Elements e;
  for (std::size_t i = 0; i < n; ++i) e.push_back(random() % 16 == 0 ? 0 : encode(t, values(random)));
  return e;
}

Elements any_bits(ElementType t, std::size_t n, std::mt19937_64& random) {
  Elements e;
  const int drop = 64 - static_cast<int>(element_size(t) * 8);
  for (std::size_t i = 0; i < n; ++i) e.push_back(random() >> drop);
  return e;
}

std::string difference(const GradStats& got, const GradStats& want) {
  std::ostringstream text;
  text << std::hexfloat;
  const auto value = [&text](const char* name, double a, double b) {
    if (std::bit_cast<std::uint64_t>(a) != std::bit_cast<std::uint64_t>(b))
      text << name << ' ' << a << " want " << b << "; ";
  };
  const auto count = [&text](const char* name, std::uint64_t a, std::uint64_t b) {
    if (a != b) text << name << ' ' << a << " want " << b << "; ";
  };
  value("sum_squares", got.sum_squares, want.sum_squares);
  value("abs_max", got.abs_max, want.abs_max);
  count("elements", got.elements, want.elements);
  count("inf", got.inf, want.inf);
  count("nan", got.nan, want.nan);
  count("zeros", got.zeros, want.zeros);
  count("subnormals", got.subnormals, want.subnormals);
  count("overranges", got.overranges, want.overranges);
  return text.str();
}

}  // namespace stepgate::test

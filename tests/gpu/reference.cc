#include "tests/gpu/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

namespace stepgate::gpu {
namespace {

struct Format {
  int mantissa_bits;
  int bias;
  bool has_infinity;
};

Format format(ElementType t) {
  switch (t) {
    case ElementType::kFp32: return {23, 127, true};
    case ElementType::kFp16: return {10, 15, true};
    case ElementType::kBf16: return {7, 127, true};
    case ElementType::kFp64: return {52, 1023, true};
    case ElementType::kFp8E4M3: return {3, 7, false};
    case ElementType::kFp8E5M2: return {2, 15, true};
  }
  return {};
}

std::uint64_t bits_at(const unsigned char* data, std::size_t size, std::uint64_t i) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, data + i * size, size);  // little endian, as CUDA is
  return bits;
}

// Values of every pattern of a narrow type; wide ones are the machine's own.
class Values {
 public:
  explicit Values(ElementType t) : type_(t) {
    if (element_size(t) > 2) return;
    table_.resize(std::size_t{1} << (8 * element_size(t)));
    for (std::size_t bits = 0; bits < table_.size(); ++bits) table_[bits] = value_of(t, bits);
  }
  double operator()(std::uint64_t bits) const {
    if (!table_.empty()) return table_[bits];
    if (type_ == ElementType::kFp64) return std::bit_cast<double>(bits);
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  }

 private:
  ElementType type_;
  std::vector<double> table_;
};

struct Unit {
  double values[kUnitElements];
  std::uint64_t count = 0;
};

double fold(const double* c, std::size_t n) {
  double level[kUnitColumns];
  std::memcpy(level, c, n * sizeof *c);
  for (; n > 1; n = (n + 1) / 2) {
    for (std::size_t i = 0; i < n / 2; ++i) level[i] = level[2 * i] + level[2 * i + 1];
    if (n % 2 != 0) level[n / 2] = level[n - 1];
  }
  return level[0];
}

double unit_squares(ElementType stored, const Unit& unit, bool finite, double abs_max) {
  const bool narrow = stored != ElementType::kFp64 && finite &&
                      (abs_max == 0 || (abs_max >= kFp32SquaresMin && abs_max <= kFp32SquaresMax));
  double columns[kUnitColumns] = {};
  float narrow_columns[kUnitColumns] = {};
  for (std::uint64_t i = 0; i < unit.count; ++i) {
    const double x = unit.values[i];
    if (narrow) {
      float& c = narrow_columns[i % kUnitColumns];
      c = std::fma(static_cast<float>(x), static_cast<float>(x), c);
    } else if (std::isfinite(x)) {
      columns[i % kUnitColumns] = std::fma(x, x, columns[i % kUnitColumns]);
    }
  }
  if (narrow) {
    for (std::uint32_t i = 0; i < kUnitColumns; ++i) columns[i] = narrow_columns[i];
  }
  return fold(columns, kUnitColumns);
}

}  // namespace

double value_of(ElementType t, std::uint64_t bits) {
  const Format f = format(t);
  const int width = static_cast<int>(8 * element_size(t));
  const std::uint64_t mantissa_mask = (std::uint64_t{1} << f.mantissa_bits) - 1;
  const std::uint64_t exponent_mask = (std::uint64_t{1} << (width - 1 - f.mantissa_bits)) - 1;
  const std::uint64_t exponent = bits >> f.mantissa_bits & exponent_mask;
  const std::uint64_t mantissa = bits & mantissa_mask;
  const double sign = (bits >> (width - 1) & 1) != 0 ? -1.0 : 1.0;
  if (f.has_infinity ? exponent == exponent_mask : exponent == exponent_mask && mantissa == mantissa_mask) {
    const bool infinite = f.has_infinity && mantissa == 0;
    return infinite ? sign * std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::quiet_NaN();
  }
  const std::uint64_t whole = exponent == 0 ? mantissa : mantissa + mantissa_mask + 1;
  const int power = (exponent == 0 ? 1 : static_cast<int>(exponent)) - f.bias - f.mantissa_bits;
  return sign * std::ldexp(static_cast<double>(whole), power);
}

GradStats reference_scan(ElementType stored, ElementType compute, const unsigned char* data,
                         std::uint64_t count) {
  const Values values(stored);
  const std::size_t size = element_size(stored);
  GradStats s;
  PairwiseSum units;
  s.elements = count;
  static thread_local Unit unit;
  for (std::uint64_t start = 0; start < count; start += kUnitElements) {
    unit.count = std::min<std::uint64_t>(kUnitElements, count - start);
    bool finite = true;
    double unit_max = 0;
    for (std::uint64_t i = 0; i < unit.count; ++i) {
      const double x = unit.values[i] = values(bits_at(data, size, start + i));
      if (!std::isfinite(x)) {
        finite = false;
        ++(std::isnan(x) ? s.nan : s.inf);
        continue;
      }
      const double magnitude = std::fabs(x);
      s.zeros += x == 0;
      s.subnormals += x != 0 && magnitude < smallest_normal(compute);
      s.overranges += magnitude > largest_finite(compute);
      unit_max = std::max(unit_max, magnitude);
    }
    s.abs_max = std::max(s.abs_max, unit_max);
    units.push(unit_squares(stored, unit, finite, unit_max));
  }
  s.sum_squares = units.total();
  return s;
}

long double exact_squares(ElementType stored, const unsigned char* data, std::uint64_t count) {
  const Values values(stored);
  long double sum = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const long double x = values(bits_at(data, element_size(stored), i));
    if (std::isfinite(x)) sum += x * x;
  }
  return sum;
}

std::uint64_t sign_of(ElementType t) {
  return std::uint64_t{1} << (8 * element_size(t) - 1);
}

std::int64_t infinity_of(ElementType t) {
  const Format f = format(t);
  if (!f.has_infinity) return -1;
  return static_cast<std::int64_t>((sign_of(t) - 1) >> f.mantissa_bits << f.mantissa_bits);
}

std::uint64_t nan_of(ElementType t) {
  return sign_of(t) - 1;
}

std::uint64_t largest_of(ElementType t) {
  return format(t).has_infinity ? static_cast<std::uint64_t>(infinity_of(t)) - 1 : nan_of(t) - 1;
}

Bytes packed(ElementType t, const std::vector<std::uint64_t>& elements, std::size_t offset) {
  const std::size_t size = element_size(t);
  Bytes bytes(offset + elements.size() * size, 0xee);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    std::memcpy(bytes.data() + offset + i * size, &elements[i], size);
  }
  return bytes;
}

std::string difference(const GradStats& got, const GradStats& want) {
  if (std::memcmp(&got, &want, sizeof got) == 0) return "";
  char text[400];
  std::snprintf(
      text, sizeof text,
      "squares %a want %a, abs_max %a want %a, inf %llu want %llu, nan %llu want %llu, zeros %llu want "
      "%llu, subnormals %llu want %llu, overranges %llu want %llu",
      got.sum_squares, want.sum_squares, got.abs_max, want.abs_max, static_cast<unsigned long long>(got.inf),
      static_cast<unsigned long long>(want.inf), static_cast<unsigned long long>(got.nan),
      static_cast<unsigned long long>(want.nan), static_cast<unsigned long long>(got.zeros),
      static_cast<unsigned long long>(want.zeros), static_cast<unsigned long long>(got.subnormals),
      static_cast<unsigned long long>(want.subnormals), static_cast<unsigned long long>(got.overranges),
      static_cast<unsigned long long>(want.overranges));
  return text;
}

}  // namespace stepgate::gpu

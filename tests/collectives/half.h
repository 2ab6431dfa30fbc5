// fp16 by its definition, for references: shares no code with the product and needs no type of the compiler's
// (clang-tidy 14 has none). Pure functions; any thread, no lock, nothing to own.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace stepgate::testing {

inline double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int mantissa = bits & 0x3ff;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0x1f) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  return sign * std::ldexp(exponent == 0 ? mantissa : 1024 + mantissa, std::max(exponent, 1) - 25);
}

// To nearest even, in one rounding.
inline std::uint16_t half_bits(double value) {
  const unsigned sign = std::signbit(value) ? 0x8000 : 0;
  const auto with_sign = [sign](unsigned bits) { return static_cast<std::uint16_t>(sign | bits); };
  const double size = std::fabs(value);
  if (std::isnan(value)) return with_sign(0x7e00);
  if (size >= 65520) return with_sign(0x7c00);  // half way to what would be the next
  if (size == 0) return with_sign(0);
  // In units of the last place; from 1024 on a normal number, and 2048 carries into the exponent by itself.
  const int exponent = std::max(std::ilogb(size), -14);
  const auto places = static_cast<unsigned>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return with_sign((static_cast<unsigned>(exponent + 14) << 10) + places);
}

}  // namespace stepgate::testing

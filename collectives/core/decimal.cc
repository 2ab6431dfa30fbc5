#include "collectives/core/decimal.h"

#include <charconv>
#include <cmath>

namespace stepgate {
namespace {

// The longest: a sign, 17 digits, a point, an exponent of five characters; or 16 whole digits.
constexpr int kLongest = 32;

// A loss scale reads better as 16777216 than as 1.6777216e+07; both are exact here.
bool whole(double x) {
  return std::abs(x) < 0x1p53 && x == std::trunc(x);
}

}  // namespace

std::string shortest_decimal(double x) {
  if (std::isnan(x)) return "nan";
  char text[kLongest];
  const auto end = whole(x) ? std::to_chars(text, text + kLongest, x, std::chars_format::fixed)
                            : std::to_chars(text, text + kLongest, x);
  return std::string(text, end.ptr);
}

}  // namespace stepgate

// round_to_half() and the packing against the definition of fp16, value by value.
#include "integration/examples/charlm/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace stepgate::charlm {
namespace {

// The definition, in double: the nearest multiple of the spacing, ties to even.
double nearest_half(double x) {
  if (std::isnan(x) || x == 0) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double spacing = std::ldexp(1.0, std::max(exponent - 11, -24));
  const double rounded = std::nearbyint(x / spacing) * spacing;
  return std::abs(rounded) >= 65536 ? std::copysign(INFINITY, x) : rounded;
}

void expect_rounds(float x) {
  const float expected = static_cast<float>(nearest_half(x));
  const float got = round_to_half(x);
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(got)) << x;
  } else {
    EXPECT_EQ(got, expected) << x;
    EXPECT_EQ(std::signbit(got), std::signbit(x)) << x;
  }
}

TEST(Half, EveryHalfValueStaysAndPacksBack) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = half_value(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_value(half_bits(value)))) << bits;
      continue;
    }
    EXPECT_EQ(round_to_half(value), value) << bits;
    EXPECT_EQ(half_bits(value), bits);
  }
}

// All borders: the middle between two neighbours, and one fp32 step to either side of it.
TEST(Half, MiddlesAndTheirNeighboursRoundToNearestEven) {
  for (std::uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = half_value(bits);
    const float high = half_value(static_cast<std::uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    for (const float x : {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, high)}) {
      expect_rounds(x);
      expect_rounds(-x);
    }
  }
}

TEST(Half, OverflowAndSpecialValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(round_to_half(65519.996f), 65504.0f);
  EXPECT_EQ(round_to_half(65520.0f), kInf);
  EXPECT_EQ(round_to_half(-1e30f), -kInf);
  EXPECT_EQ(round_to_half(kInf), kInf);
  EXPECT_EQ(round_to_half(0x1p-25f), 0.0f);
  EXPECT_EQ(round_to_half(std::nextafter(0x1p-25f, 1.0f)), 0x1p-24f);
  EXPECT_TRUE(std::isnan(round_to_half(std::numeric_limits<float>::quiet_NaN())));
  expect_rounds(std::numeric_limits<float>::signaling_NaN());
}

TEST(Bfloat, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(bfloat_value(bfloat_bits(1.0f)), 1.0f);
  EXPECT_EQ(bfloat_value(bfloat_bits(1.0f + 0x1p-8f)), 1.0f);
  EXPECT_EQ(bfloat_value(bfloat_bits(1.0f + 3 * 0x1p-8f)), 1.0f + 0x1p-6f);
  EXPECT_TRUE(std::isinf(bfloat_value(bfloat_bits(3.4e38f))));
  EXPECT_TRUE(std::isnan(bfloat_value(bfloat_bits(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace stepgate::charlm

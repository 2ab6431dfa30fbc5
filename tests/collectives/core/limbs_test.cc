// norm^2 as 32-bit digits: exact where it can be, cut below 2^-320, rounded once on the way back.
// The reference is schoolbook binary addition of single bits; it shares nothing with the product.
#include <bitset>

#include "tests/collectives/core/support.h"

namespace stepgate::test {
namespace {

// A sum of fp64 values in units of 2^-320, one bit at a time; 704 bits hold 2^21 times 2^320.
class BitSum {
 public:
  void add(double x, std::uint64_t times = 1) {
    int exponent = 0;
    const double fraction = std::frexp(x, &exponent);
    const auto mantissa = static_cast<std::uint64_t>(std::ldexp(fraction, 53));
    for (std::uint64_t t = times, level = 0; t != 0; t >>= 1, ++level) {
      if (t & 1u) add_shifted(mantissa, exponent - 53 + 320, static_cast<int>(level));
    }
  }

  // To nearest, ties to even.
  double rounded() const {
    int top = kBits - 1;
    while (top >= 0 && !bits_[static_cast<std::size_t>(top)]) --top;
    if (top < 0) return 0;
    std::uint64_t kept = 0;
    for (int i = top; i > top - 53; --i) kept = kept << 1 | bit(i);
    const bool half = bit(top - 53);
    bool rest = false;
    for (int i = top - 54; i >= 0; --i) rest = rest || bit(i);
    if (half && (rest || (kept & 1u))) ++kept;
    return std::ldexp(static_cast<double>(kept), top - 52 - 320);
  }

 private:
  static constexpr int kBits = 704;

  bool bit(int i) const { return i >= 0 && bits_[static_cast<std::size_t>(i)]; }

  // Bits below 2^-320 of x itself are cut before it is multiplied.
  void add_shifted(std::uint64_t mantissa, int position, int level) {
    for (int b = 0; b < 53; ++b) {
      if ((mantissa >> b & 1u) && position + b >= 0) carry_into(position + b + level);
    }
  }

  void carry_into(int i) {
    auto at = static_cast<std::size_t>(i);
    while (bits_[at]) bits_[at++] = false;
    bits_[at] = true;
  }

  std::bitset<kBits> bits_;
};

double positive(std::mt19937_64& random, int low, int high) {
  const int exponent = low + static_cast<int>(below(random, static_cast<std::uint64_t>(high - low)));
  return std::ldexp(1.0 + std::ldexp(static_cast<double>(random() >> 12), -52), exponent);
}

TEST(Limbs, OneValueComesBackExactly) {
  const double values[] = {0,        1,
                           0.1,      1e18,
                           1e-9,     0x1p-320,
                           0x1p-268, 0x1.fffffffffffffp-268,
                           0x1p319,  0x1.fffffffffffffp+319,
                           0x1p-31,  0x1p32 - 1,
                           0x1p32,   0x1.fffffffffffffp+0};
  for (const double x : values) {
    double limbs[kLimbs];
    ASSERT_TRUE(split_limbs(x, limbs)) << x;
    EXPECT_EQ(bits(join_limbs(limbs)), bits(x)) << x;
    for (const double digit : limbs) EXPECT_TRUE(digit >= 0 && digit < 0x1p32 && digit == std::floor(digit));
  }
}

TEST(Limbs, BitsBelowTheLastDigitAreCut) {
  const std::pair<double, double> rows[] = {
      {0x1p-321, 0},
      {0x1p-1022, 0},
      {5e-324, 0},
      {0x0.fffffffffffffp-1022, 0},
      {0x1.8p-320, 0x1p-320},
      {0x1.fffffffffffffp-300, 0x1.fffffp-300},
  };
  for (const auto& [x, want] : rows) {
    double limbs[kLimbs];
    ASSERT_TRUE(split_limbs(x, limbs));
    EXPECT_EQ(bits(join_limbs(limbs)), bits(want)) << x;
  }
}

TEST(Limbs, WhatDoesNotFitIsRefusedWithZeros) {
  for (const double x : {0x1p320, 0x1p1023, static_cast<double>(INFINITY), static_cast<double>(NAN), -1.0}) {
    double limbs[kLimbs];
    std::fill(std::begin(limbs), std::end(limbs), 9.0);
    EXPECT_FALSE(split_limbs(x, limbs)) << x;
    for (const double digit : limbs) EXPECT_EQ(digit, 0);
  }
}

TEST(Limbs, SumsOfTheMostRanksAreExact) {
  for (const double x : {0x1.fffffffffffffp+319, 0x1.fffffffffffffp-1, 0x1.0000000000001p-300, 0.1}) {
    double limbs[kLimbs];
    ASSERT_TRUE(split_limbs(x, limbs));
    for (double& digit : limbs) {
      digit *= kMaxRanks;
      ASSERT_LE(digit, 0x1p53) << "no longer exact";
    }
    BitSum want;
    want.add(x, kMaxRanks);
    EXPECT_EQ(bits(join_limbs(limbs)), bits(want.rounded())) << x;
  }
}

// Ranks of very different size, so that carries run and ties and sticky bits occur.
TEST(Limbs, RandomSumsRoundLikeLongArithmetic) {
  std::mt19937_64 random = seeded("limb sums");
  for (int round = 0; round < 4000; ++round) {
    double sum[kLimbs] = {};
    BitSum want;
    const int centre = static_cast<int>(below(random, 600)) - 300;
    const std::uint64_t ranks = 1 + below(random, 9);
    for (std::uint64_t r = 0; r < ranks; ++r) {
      const double x = positive(random, std::max(centre - 70, -330), std::min(centre + 3, 320));
      double limbs[kLimbs];
      ASSERT_TRUE(split_limbs(x, limbs));
      for (int i = 0; i < kLimbs; ++i) sum[i] += limbs[i];
      want.add(x);
    }
    ASSERT_EQ(bits(join_limbs(sum)), bits(want.rounded())) << "round " << round;
  }
}

TEST(Limbs, TiesGoToEven) {
  struct Tie {
    std::vector<double> parts;
    double want;
  };
  const Tie rows[] = {
      {{0x1p53, 1}, 0x1p53},
      {{0x1p53, 1, 0x1p-320}, 0x1p53 + 2},
      {{0x1p53, 2, 1}, 0x1p53 + 4},
      {{0x1p53, 2, 0x1.fffffffffffffp-1}, 0x1p53 + 2},
      {{0x1.fffffffffffffp+52, 0x1p-1}, 0x1p53},
      {{0x1p32, 0x1p-21}, 0x1p32},
      {{0x1p32, 0x1p-21, 0x1p-60}, 0x1.0000000000001p32},
      {{0x1p40, 0x1p-13}, 0x1p40},
      {{0x1p40, 0x1p-13, 0x1p-30}, 0x1p40 + 0x1p-12},  // the last bit of a digit taken in part
      {{0x1p64, 0x1p11}, 0x1p64},
      {{0x1p64, 0x1p12, 0x1p11}, 0x1p64 + 0x1p13},
      {{0x1p63, 0x1p10, 0x1p-1}, 0x1.0000000000001p63},
  };
  for (const Tie& row : rows) {
    double sum[kLimbs] = {};
    for (const double part : row.parts) {
      double limbs[kLimbs];
      ASSERT_TRUE(split_limbs(part, limbs));
      for (int i = 0; i < kLimbs; ++i) sum[i] += limbs[i];
    }
    EXPECT_EQ(bits(join_limbs(sum)), bits(row.want)) << row.want;
  }
}

TEST(Limbs, NormIsTheRoot) {
  double limbs[kLimbs];
  ASSERT_TRUE(split_limbs(25, limbs));
  EXPECT_EQ(norm_from_limbs(limbs), 5.0);
  ASSERT_TRUE(split_limbs(0, limbs));
  EXPECT_EQ(norm_from_limbs(limbs), 0.0);
}

}  // namespace
}  // namespace stepgate::test

// Definitions behind step_summary.h. Include that, not this.
#pragma once

#include <cmath>

#include "collectives/core/step_summary.h"

namespace stepgate {

STEPGATE_HD inline bool split_limbs(double x, double* limbs) {
  for (int i = 0; i < kLimbs; ++i) limbs[i] = 0;
  if (!(x - x == 0.0) || x < 0 || x >= 0x1p320) return false;
  // From the top digit down; each step is exact: x < 2^(32(i+1)-320) holds before digit i is taken.
  for (int i = kLimbs - 1; i >= 0; --i) {
    const int exponent = kLimbBits * i + kLimbExponent;
    const double digit = std::floor(std::ldexp(x, -exponent));
    limbs[i] = digit;
    x -= std::ldexp(digit, exponent);
  }
  return true;
}

namespace summary_detail {

// Carries summed digits into proper 32-bit ones; returns the number of used digits (<= kLimbs + 1).
STEPGATE_HD inline int carry_digits(const double* limbs, std::uint64_t* digits) {
  std::uint64_t carry = 0;
  int used = 0;
  for (int i = 0; i < kLimbs; ++i) {
    const std::uint64_t v = static_cast<std::uint64_t>(limbs[i]) + carry;
    digits[i] = v & 0xffffffffu;
    carry = v >> kLimbBits;
    if (digits[i] != 0) used = i + 1;
  }
  digits[kLimbs] = carry;
  if (carry != 0) used = kLimbs + 1;
  return used;
}

// value = m * 2^e with m holding the top 64 bits and a sticky last bit; m == 0 for zero.
STEPGATE_HD inline std::uint64_t top_bits(const std::uint64_t* digits, int used, int* exponent) {
  std::uint64_t m = 0;
  int taken = 0;
  int i = used - 1;
  for (; i >= 0 && taken < 2; --i, ++taken) m = (m << kLimbBits) | digits[i];
  int e = kLimbBits * (i + 1) + kLimbExponent;
  if (m == 0) return 0;
  int shift = 0;
  while (!(m >> 63)) {
    m <<= 1;
    ++shift;
  }
  e -= shift;
  if (i >= 0 && shift > 0) {
    m |= digits[i] >> (kLimbBits - shift);
    if (digits[i] & ((std::uint64_t{1} << (kLimbBits - shift)) - 1)) m |= 1u;
    --i;
  }
  for (; i >= 0; --i) {
    if (digits[i] != 0) m |= 1u;
  }
  *exponent = e;
  return m;
}

// m rounded to 53 bits, ties to even; the sticky bit makes a tie only where there is one.
STEPGATE_HD inline double round_mantissa(std::uint64_t m) {
  const std::uint64_t low = m & 0x7ff;
  std::uint64_t high = m >> 11;
  if (low > 0x400 || (low == 0x400 && (high & 1u))) ++high;
  return static_cast<double>(high) * 2048.0;
}

}  // namespace summary_detail

STEPGATE_HD inline double join_limbs(const double* limbs) {
  std::uint64_t digits[kLimbs + 1];
  const int used = summary_detail::carry_digits(limbs, digits);
  if (used == 0) return 0;
  int exponent = 0;
  const std::uint64_t m = summary_detail::top_bits(digits, used, &exponent);
  return std::ldexp(summary_detail::round_mantissa(m), exponent);
}

STEPGATE_HD inline double norm_from_limbs(const double* limbs) {
  return std::sqrt(join_limbs(limbs));
}

STEPGATE_HD inline void build_summary(const SummaryInput& in, double* f) {
  for (int i = 0; i < kSummaryFields; ++i) f[i] = 0;
  if (!split_limbs(in.norm_squares, f + kSumLimb0)) f[kSumNormOverflow] = 1;
  f[kSumElements] = static_cast<double>(in.stats.elements);
  f[kSumInf] = static_cast<double>(in.stats.inf);
  f[kSumNan] = static_cast<double>(in.stats.nan);
  f[kSumZeros] = static_cast<double>(in.stats.zeros);
  f[kSumSubnormals] = static_cast<double>(in.stats.subnormals);
  f[kSumOverranges] = static_cast<double>(in.stats.overranges);
  f[kSumVeto] = in.veto != 0;
  f[kSumDegrade] = in.degrade != 0;
  f[kSumUndecided] = in.undecided != 0;
  f[kSumContributors] = 1;
  f[kSumAttributing] = in.attributing != 0;
  const double rank = in.rank;
  if (in.local_inf != 0 || in.local_nan != 0) {
    f[kSumOffenders] = 1;
    f[kSumOffenderRank] = rank;
    f[kSumOffenderRankSquared] = rank * rank;
  }
  const double step = static_cast<double>(in.step % kSummaryStepModulus);
  f[kSumStep] = step;
  f[kSumStepSquared] = step * step;
  f[kSumSet] = in.set;
  f[kSumSetSquared] = static_cast<double>(in.set) * in.set;
  const double a = in.digest_a & 0xffffu;
  const double b = in.digest_b & 0xffffu;
  f[kSumDigestA] = a;
  f[kSumDigestASquared] = a * a;
  f[kSumDigestARank] = a * rank;
  f[kSumDigestB] = b;
  f[kSumDigestBSquared] = b * b;
  f[kSumDigestBRank] = b * rank;
  f[kSumLocalInf] = static_cast<double>(in.local_inf);
  f[kSumLocalNan] = static_cast<double>(in.local_nan);
}

STEPGATE_HD inline void build_failure_summary(std::uint32_t rank, double* f) {
  SummaryInput in;
  in.rank = rank;
  in.veto = 1;
  in.degrade = 1;
  build_summary(in, f);
}

STEPGATE_HD inline std::int32_t offending_rank(const double* f, std::uint32_t world) {
  const double count = f[kSumOffenders];
  if (count == 1) return static_cast<std::int32_t>(f[kSumOffenderRank]);
  if (count > 1) return kOffenderSeveral;
  const bool nonfinite = f[kSumInf] != 0 || f[kSumNan] != 0;
  if (nonfinite && f[kSumAttributing] == static_cast<double>(world)) return kOffenderReduction;
  return kOffenderUnknown;
}

STEPGATE_HD inline bool offending_pair(const double* f, std::int32_t out[2]) {
  if (f[kSumOffenders] != 2) return false;
  const auto sum = static_cast<std::int64_t>(f[kSumOffenderRank]);
  const auto squares = static_cast<std::int64_t>(f[kSumOffenderRankSquared]);
  // (high - low)^2 = 2 (high^2 + low^2) - (high + low)^2; exact in fp64 for ranks below 2^21.
  const double gap = std::sqrt(static_cast<double>(2 * squares - sum * sum));
  out[0] = static_cast<std::int32_t>((sum - static_cast<std::int64_t>(gap)) / 2);
  out[1] = static_cast<std::int32_t>(sum - out[0]);
  return true;
}

STEPGATE_HD inline bool plausible_sums(const double* f) {
  // The bound keeps every later conversion to 64-bit integers defined.
  for (int i = 0; i < kSummaryFields; ++i) {
    if (!(f[i] >= 0 && f[i] < 0x1p62)) return false;
  }
  return true;
}

namespace summary_detail {

// 128 bits by hand: device compilers and old hosts have no __int128 to share.
struct Wide {
  std::uint64_t high, low;
};
STEPGATE_HD inline Wide multiply(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
  const std::uint64_t p00 = a0 * b0, p01 = a0 * b1, p10 = a1 * b0, p11 = a1 * b1;
  const std::uint64_t middle = (p00 >> 32) + (p01 & 0xffffffffu) + (p10 & 0xffffffffu);
  return {p11 + (p01 >> 32) + (p10 >> 32) + (middle >> 32), (middle << 32) | (p00 & 0xffffffffu)};
}

}  // namespace summary_detail

STEPGATE_HD inline bool all_equal(double contributors, double sum, double sum_squares) {
  const auto n = static_cast<std::uint64_t>(contributors);
  const auto s = static_cast<std::uint64_t>(sum);
  const auto q = static_cast<std::uint64_t>(sum_squares);
  const summary_detail::Wide left = summary_detail::multiply(n, q);
  const summary_detail::Wide right = summary_detail::multiply(s, s);
  return left.high == right.high && left.low == right.low;
}

namespace summary_detail {

// The digest that all but one hold and the odd one's distance from it, seen by a rank that holds
// `own`: either it is one of the many, or all the others agree and it is the odd one itself. Never
// both with three ranks or more. False where neither fits.
STEPGATE_HD inline bool common_digest(std::int64_t own, std::int64_t n, std::int64_t sum,
                                      std::int64_t squares, std::int64_t* common, std::int64_t* distance) {
  *common = own;
  *distance = sum - n * own;
  const std::int64_t odd = own + *distance;
  // Bounded first: the square of anything larger could overflow.
  if (odd >= 0 && odd <= 0xffff && squares == (n - 1) * own * own + odd * odd) return true;
  const std::int64_t others = sum - own;
  *common = others / (n - 1);
  *distance = own - *common;
  return *common * (n - 1) == others && squares == (n - 1) * *common * *common + own * own;
}

}  // namespace summary_detail

STEPGATE_HD inline std::int32_t odd_rank(std::uint32_t own, double contributors, double sum,
                                         double sum_squares, double sum_rank) {
  const auto n = static_cast<std::int64_t>(contributors);
  if (n < 3 || n > static_cast<std::int64_t>(kNamedRanks)) return -1;
  std::int64_t common = 0, distance = 0;
  if (!summary_detail::common_digest(own & 0xffffu, n, static_cast<std::int64_t>(sum),
                                     static_cast<std::int64_t>(sum_squares), &common, &distance)) {
    return -1;
  }
  if (distance == 0) return -1;
  const std::int64_t moved = static_cast<std::int64_t>(sum_rank) - common * (n * (n - 1) / 2);
  if (moved % distance != 0) return -1;
  const std::int64_t rank = moved / distance;
  return rank >= 0 && rank < n ? static_cast<std::int32_t>(rank) : -1;
}

}  // namespace stepgate

// StepSummary: what the ranks exchange once a step, combined by a SUM of fp64 and nothing else.
//
// Layout: an array of kSummaryFields doubles, each a whole number. Whatever a decision is made of
// sums exactly over up to kMaxRanks ranks, so every rank gets the same bits whatever the order of
// summation. norm^2 travels as 32-bit digits ("limbs"): digit i weighs 2^(32 i - 320); bits below
// 2^-320 are cut. Counts are exact while their total stays below 2^53; beyond that they are only good
// for the test != 0, as are all flags. Sums of something times a rank are exact up to kNamedRanks
// ranks; beyond that nobody is named. There is no MAX anywhere: a floating MAX drops NaN.
//
// Thread: any; the caller owns the array. Host and device.
#pragma once

#include <cstdint>

#include "collectives/core/grad_stats.h"
#include "collectives/core/host_device.h"

namespace stepgate {

inline constexpr int kLimbs = 20;
inline constexpr int kLimbBits = 32;
inline constexpr int kLimbExponent = -320;  // weight of digit 0 is 2^kLimbExponent

// Field indices of the summary. Part of the agreement protocol: never renumber, append only and
// raise kSummaryVersion.
enum SummaryField : int {
  kSumLimb0 = 0,  // ... kSumLimb0 + kLimbs - 1
  kSumElements = kLimbs,
  kSumInf,
  kSumNan,
  kSumZeros,
  kSumSubnormals,
  kSumOverranges,
  kSumNormOverflow,  // ranks whose local sum was not finite or >= 2^320
  kSumVeto,          // ranks that veto the step
  kSumDegrade,       // ranks that can no longer take part: releases everybody
  kSumUndecided,     // ranks whose last decision never came
  kSumContributors,
  kSumAttributing,          // ranks whose local scan covered every reduction
  kSumOffenders,            // ranks with a local inf or NaN ...
  kSumOffenderRank,         // ... sum of their ranks
  kSumOffenderRankSquared,  // ... sum of their ranks squared
  kSumStep,                 // step number (mod 2^16) as value
  kSumStepSquared,          // ... and square: equal on all ranks iff N*sum(x^2)==(sum x)^2
  kSumSet,
  kSumSetSquared,
  kSumDigestA,  // 16-bit digest d of the previous step's state ...
  kSumDigestASquared,
  kSumDigestARank,  // ... sum of d * rank
  kSumDigestB,      // second digest: decision and norm bits
  kSumDigestBSquared,
  kSumDigestBRank,
  kSumLocalInf,  // elements before the reduction
  kSumLocalNan,
  kSummaryFields,
};
inline constexpr std::uint32_t kSummaryVersion = 1;
inline constexpr std::uint32_t kMaxRanks = 1u << 21;
inline constexpr std::uint32_t kNamedRanks = 1u << 18;
// 16 bits, so that squares of kMaxRanks ranks still sum to at most 2^53.
inline constexpr std::uint64_t kSummaryStepModulus = std::uint64_t{1} << 16;
static_assert(kSummaryFields * sizeof(double) < 512, "one agreement message stays under 512 bytes");

// What one rank puts into the exchange, before it is spread over the fields.
struct SummaryInput {
  GradStats stats;          // reduced ranges that this rank counts; counts and flags of all
  double norm_squares = 0;  // unscaled, counted ranges only
  std::uint64_t local_inf = 0;
  std::uint64_t local_nan = 0;
  std::uint64_t step = 0;
  std::uint32_t set = 0;
  std::uint32_t rank = 0;
  std::uint32_t digest_a = 0;  // 16 bits each
  std::uint32_t digest_b = 0;
  std::uint32_t veto = 0;
  std::uint32_t degrade = 0;
  std::uint32_t undecided = 0;
  std::uint32_t attributing = 0;
};

// Splits x >= 0 into digits; false (digits zeroed) when x is not finite or at or above 2^320.
STEPGATE_HD bool split_limbs(double x, double* limbs);

// The value of summed digits, rounded once to fp64 (+inf where fp64 cannot hold it).
STEPGATE_HD double join_limbs(const double* limbs);

// sqrt(join_limbs): never overflows where the norm itself fits fp64.
STEPGATE_HD double norm_from_limbs(const double* limbs);

// Writes all kSummaryFields doubles.
STEPGATE_HD void build_summary(const SummaryInput& in, double* fields);

// The constant summary of a rank that failed before the exchange: veto and degrade.
STEPGATE_HD void build_failure_summary(std::uint32_t rank, double* fields);

// Who caused a skip, as far as the sums tell.
inline constexpr std::int32_t kOffenderReduction = -1;
inline constexpr std::int32_t kOffenderSeveral = -2;
inline constexpr std::int32_t kOffenderUnknown = -3;

// A rank >= 0, or one of the three above. `world` is the agreement's size.
STEPGATE_HD std::int32_t offending_rank(const double* fields, std::uint32_t world);

// The two offending ranks, lower first; false (out untouched) unless there are exactly two.
STEPGATE_HD bool offending_pair(const double* fields, std::int32_t out[2]);

// False where a field is not what a sum of summaries can be: NaN, negative, or far too large.
STEPGATE_HD bool plausible_sums(const double* fields);

// True when all contributors sent the same value, judged from sum and sum of squares in 128 bits.
STEPGATE_HD bool all_equal(double contributors, double sum, double sum_squares);

// The one odd rank of three or more, or -1: `own` is the caller's digest. The odd rank finds itself
// too. Names, never decides: three different digests can, with luck, look like one odd rank.
STEPGATE_HD std::int32_t odd_rank(std::uint32_t own, double contributors, double sum, double sum_squares,
                                  double sum_rank);

}  // namespace stepgate

#include "collectives/core/step_summary_impl.h"

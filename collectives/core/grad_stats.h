// GradStats: what one pass over a gradient's bytes yields. Plain data, host and device.
//
// All figures speak of elements AS STORED (still multiplied by the loss scale); nothing here has
// been unscaled. Combining two GradStats is exact for the counts and for abs_max; the sum of
// squares is combined only in the fixed order that docs/semantics.md states.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/core/host_device.h"

namespace stepgate {

// The unit of the fixed summation order: 8,192 elements counted from the segment's start, element i
// in column i mod 256, 32 fused multiply-adds per column.
inline constexpr std::uint64_t kUnitElements = 8192;
inline constexpr std::uint32_t kUnitColumns = 256;

// Units whose largest finite magnitude lies outside [kFp32SquaresMin, kFp32SquaresMax] (zero
// excepted), or which hold a non-finite element, sum their squares in fp64 columns instead of fp32.
inline constexpr double kFp32SquaresMax = 0x1p60;
inline constexpr double kFp32SquaresMin = 0x1p-50;

struct GradStats {
  double sum_squares = 0;  // of the finite elements; +inf if fp64 could not hold it
  double abs_max = 0;      // over the finite elements
  std::uint64_t elements = 0;
  std::uint64_t inf = 0;  // +inf and -inf, per element
  std::uint64_t nan = 0;
  std::uint64_t zeros = 0;       // +0 and -0
  std::uint64_t subnormals = 0;  // 0 < |x| < smallest normal of the compute type
  std::uint64_t overranges = 0;  // finite |x| > largest finite value of the compute type
};
static_assert(sizeof(GradStats) == 64, "GradStats is shared with device code and tables: 64 bytes");
static_assert(offsetof(GradStats, elements) == 16, "GradStats: the two fp64 fields come first");

// Adds b's counts and maximum to a; sum_squares is left to the caller's ordered tree.
STEPGATE_HD inline void add_counts(GradStats& a, const GradStats& b) {
  if (b.abs_max > a.abs_max) a.abs_max = b.abs_max;
  a.elements += b.elements;
  a.inf += b.inf;
  a.nan += b.nan;
  a.zeros += b.zeros;
  a.subnormals += b.subnormals;
  a.overranges += b.overranges;
}

// The fixed pairwise tree by index, as a stream: neighbours are added level by level, an odd last
// one moves up unchanged. push() in index order, then total(). The same shape as folding an array
// by halves, so a device that folds in parallel gets the same bits.
class PairwiseSum {
 public:
  STEPGATE_HD void push(double x) {
    std::uint64_t n = count_++;
    int level = 0;
    while (n & 1u) {
      x = level_[level] + x;
      n >>= 1;
      ++level;
    }
    level_[level] = x;
  }
  STEPGATE_HD double total() const {
    double sum = 0;
    bool any = false;
    for (int level = 0; level < kLevels; ++level) {
      if ((count_ >> level) & 1u) {
        sum = any ? level_[level] + sum : level_[level];
        any = true;
      }
    }
    return sum;
  }
  STEPGATE_HD std::uint64_t count() const { return count_; }

 private:
  static constexpr int kLevels = 48;
  double level_[kLevels] = {};
  std::uint64_t count_ = 0;
};

}  // namespace stepgate

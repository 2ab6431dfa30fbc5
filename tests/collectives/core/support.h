// What the core tests share: printed seeds, bit comparison, a tiny scalar reference for GradStats,
// sums over ranks in any order.
//
// Thread: any; no state. Order, lock: none. Ownership: values.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "collectives/core/element_type.h"
#include "collectives/core/gate_block.h"

namespace stepgate::test {

using Fields = std::array<double, kSummaryFields>;

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A generator whose seed is printed; set `fixed` to replay a failure.
inline std::mt19937_64 seeded(const char* what, std::uint64_t fixed = 0) {
  const std::uint64_t seed = fixed != 0 ? fixed : std::random_device{}() + 1u;
  std::cout << "[ seed     ] " << what << " " << seed << std::endl;
  return std::mt19937_64(seed);
}

inline bool chance(std::mt19937_64& random, double probability) {
  return std::bernoulli_distribution(probability)(random);
}

inline std::uint64_t below(std::mt19937_64& random, std::uint64_t limit) {
  return std::uniform_int_distribution<std::uint64_t>(0, limit - 1)(random);
}

inline std::uint64_t bits(double x) {
  return std::bit_cast<std::uint64_t>(x);
}

inline bool same_bits(const Fields& a, const Fields& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) { return bits(x) == bits(y); });
}

// Left to right in the given order.
inline Fields sum_in_order(const std::vector<Fields>& ranks, const std::vector<std::size_t>& order) {
  Fields sum = ranks[order[0]];
  for (std::size_t i = 1; i < order.size(); ++i) {
    for (std::size_t f = 0; f < sum.size(); ++f) sum[f] += ranks[order[i]][f];
  }
  return sum;
}

// By halves, as recursive doubling does.
inline Fields sum_as_tree(const std::vector<Fields>& ranks, const std::vector<std::size_t>& order) {
  std::vector<Fields> level;
  level.reserve(order.size());
  for (const std::size_t r : order) level.push_back(ranks[r]);
  while (level.size() > 1) {
    std::vector<Fields> next;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2) {
      next.push_back(sum_in_order({level[i], level[i + 1]}, {0, 1}));
    }
    if (level.size() % 2 != 0) next.push_back(level.back());
    level = next;
  }
  return level[0];
}

inline std::vector<std::size_t> identity_order(std::size_t n) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

inline Fields sum_of(const std::vector<Fields>& ranks) {
  return sum_in_order(ranks, identity_order(ranks.size()));
}

// One value at a time, in fp64: good enough where the values are few.
inline GradStats scalar_stats(const std::vector<double>& values, ElementType compute = ElementType::kFp32) {
  GradStats s;
  s.elements = values.size();
  for (const double x : values) {
    if (std::isnan(x)) {
      ++s.nan;
    } else if (std::isinf(x)) {
      ++s.inf;
    } else {
      s.sum_squares += x * x;
      s.abs_max = std::max(s.abs_max, std::abs(x));
      s.zeros += x == 0;
      s.subnormals += x != 0 && std::abs(x) < smallest_normal(compute);
      s.overranges += std::abs(x) > largest_finite(compute);
    }
  }
  return s;
}

inline RangeSlot slot_of(const std::vector<double>& values) {
  RangeSlot r;
  r.reduced = scalar_stats(values);
  r.largest_storable = largest_finite(ElementType::kFp32);
  return r;
}

// A gate's block as activation leaves it.
inline GateBlock new_block(const ScalerParams& params, std::uint32_t rank, std::uint32_t world) {
  GateBlock g;
  g.params = params;
  g.scaler = initial_state(params);
  g.rank = rank;
  g.enforcing = 1;
  g.policy.world = world;
  return g;
}

}  // namespace stepgate::test

// What the ranks' sums tell: equality, the odd rank, the offenders, whatever the order of summation.
#include "tests/collectives/core/support.h"

namespace stepgate::test {
namespace {

Fields summary_of(const SummaryInput& in) {
  Fields f;
  build_summary(in, f.data());
  return f;
}

SummaryInput random_input(std::mt19937_64& random, std::uint32_t rank) {
  SummaryInput in;
  in.rank = rank;
  in.norm_squares =
      std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(below(random, 400)) - 260);
  in.stats.elements = below(random, std::uint64_t{1} << 40);
  in.stats.inf = below(random, 3);
  in.stats.nan = below(random, 3);
  in.stats.zeros = below(random, 1000);
  in.local_inf = below(random, 2);
  in.step = random();
  in.set = static_cast<std::uint32_t>(below(random, kMaxSets));
  in.digest_a = static_cast<std::uint32_t>(below(random, 0x10000));
  in.digest_b = static_cast<std::uint32_t>(below(random, 0x10000));
  in.veto = static_cast<std::uint32_t>(below(random, 2));
  return in;
}

TEST(Summary, AnyOrderOfSummationGivesTheSameBits) {
  std::mt19937_64 random = seeded("order of summation");
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t n = 1 + static_cast<std::uint32_t>(below(random, 33));
    std::vector<Fields> ranks;
    for (std::uint32_t r = 0; r < n; ++r) ranks.push_back(summary_of(random_input(random, r)));
    std::vector<std::size_t> order = identity_order(n);
    const Fields first = sum_in_order(ranks, order);
    for (int shuffle = 0; shuffle < 5; ++shuffle) {
      std::shuffle(order.begin(), order.end(), random);
      ASSERT_TRUE(same_bits(first, sum_in_order(ranks, order)));
      ASSERT_TRUE(same_bits(first, sum_as_tree(ranks, order)));
    }
  }
}

// The largest value of each field that a decision rests on, times the most ranks.
TEST(Summary, TheMostRanksStayExact) {
  SummaryInput in;
  in.norm_squares = 0x1.fffffffffffffp+319;
  in.step = kSummaryStepModulus - 1;
  in.set = kMaxSets - 1;
  in.digest_a = in.digest_b = 0xffff;
  const Fields f = summary_of(in);
  for (const int field :
       {kSumLimb0 + 18, kSumLimb0 + 19, int{kSumStep}, int{kSumStepSquared}, int{kSumSetSquared},
        int{kSumDigestA}, int{kSumDigestASquared}, int{kSumDigestBSquared}}) {
    EXPECT_LE(f[static_cast<std::size_t>(field)] * kMaxRanks, 0x1p53) << "field " << field;
  }
  const double named = kNamedRanks;
  EXPECT_LE(0xffff * (named * (named - 1) / 2), 0x1p53) << "sum of digest times rank";
}

TEST(Summary, StepsAreComparedModulo16Bits) {
  SummaryInput in;
  in.step = 3 * kSummaryStepModulus + 5;
  EXPECT_EQ(summary_of(in)[kSumStep], 5);
  EXPECT_EQ(summary_of(in)[kSumStepSquared], 25);
}

TEST(Summary, NormThatDoesNotFitIsAFlagAndNoDigits) {
  for (const double x : {static_cast<double>(INFINITY), static_cast<double>(NAN), 0x1p320}) {
    SummaryInput in;
    in.norm_squares = x;
    const Fields f = summary_of(in);
    EXPECT_EQ(f[kSumNormOverflow], 1);
    for (std::size_t i = 0; i < kLimbs; ++i) EXPECT_EQ(f[i], 0);
  }
}

TEST(Summary, FailureSummaryVetoesAndDegrades) {
  Fields f;
  f.fill(7);
  build_failure_summary(3, f.data());
  for (int i = 0; i < kSummaryFields; ++i) {
    const bool one = i == kSumVeto || i == kSumDegrade || i == kSumContributors;
    EXPECT_EQ(f[static_cast<std::size_t>(i)], one ? 1.0 : 0.0) << "field " << i;
  }
}

TEST(Plausible, RefusesWhatNoSumCanBe) {
  const Fields good = summary_of({});
  EXPECT_TRUE(plausible_sums(good.data()));
  for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY), -1.0, 0x1p62}) {
    for (std::size_t i = 0; i < good.size(); ++i) {
      Fields f = good;
      f[i] = bad;
      EXPECT_FALSE(plausible_sums(f.data())) << "field " << i << " = " << bad;
    }
  }
}

struct Sums {
  double n = 0, sum = 0, squares = 0, by_rank = 0;
};

Sums sums_of(const std::vector<std::uint32_t>& values) {
  Sums s;
  for (std::size_t r = 0; r < values.size(); ++r) {
    const double v = values[r];
    s.n += 1;
    s.sum += v;
    s.squares += v * v;
    s.by_rank += v * static_cast<double>(r);
  }
  return s;
}

TEST(AllEqual, OneDifferenceIsSeenAtAnySize) {
  for (const std::size_t n : {1u, 2u, 3u, 1000u, kMaxRanks}) {
    std::vector<std::uint32_t> values(n, 0xfffe);
    Sums s = sums_of(values);
    EXPECT_TRUE(all_equal(s.n, s.sum, s.squares)) << n;
    if (n == 1) continue;
    for (const std::uint32_t other : {0xffffu, 0xfffdu, 0u}) {
      values[n / 2] = other;
      s = sums_of(values);
      EXPECT_FALSE(all_equal(s.n, s.sum, s.squares)) << n << " with " << other;
    }
  }
}

TEST(OddRank, EveryRankNamesTheOddOneEvenItself) {
  std::mt19937_64 random = seeded("odd rank");
  for (int round = 0; round < 2000; ++round) {
    const std::size_t n = 3 + below(random, 40);
    const auto common = static_cast<std::uint32_t>(below(random, 0x10000));
    std::vector<std::uint32_t> values(n, common);
    const std::size_t odd = below(random, n);
    while (values[odd] == common) values[odd] = static_cast<std::uint32_t>(below(random, 0x10000));
    const Sums s = sums_of(values);
    for (std::size_t r = 0; r < n; ++r) {
      ASSERT_EQ(odd_rank(values[r], s.n, s.sum, s.squares, s.by_rank), static_cast<std::int32_t>(odd))
          << "seen by rank " << r << " of " << n;
    }
  }
}

TEST(OddRank, ExtremesAndTheMostRanks) {
  for (const std::size_t n : {std::size_t{3}, std::size_t{kNamedRanks}}) {
    for (const std::size_t odd : {std::size_t{0}, n - 1}) {
      for (const auto& [common, other] : {std::pair{0u, 0xffffu}, std::pair{0xffffu, 0u}}) {
        std::vector<std::uint32_t> values(n, common);
        values[odd] = other;
        const Sums s = sums_of(values);
        EXPECT_EQ(odd_rank(common, s.n, s.sum, s.squares, s.by_rank), static_cast<std::int32_t>(odd));
        EXPECT_EQ(odd_rank(other, s.n, s.sum, s.squares, s.by_rank), static_cast<std::int32_t>(odd));
      }
    }
  }
}

TEST(OddRank, NobodyIsNamedWhereNobodyIsOdd) {
  const std::vector<std::vector<std::uint32_t>> rows = {
      {7, 8},             // two ranks: either could be wrong
      {7, 7, 7},          // equal
      {7, 7, 8, 8},       // two and two
      {1, 2, 3},          // all different
      {7, 7, 7, 19, 30},  // two odd ones
  };
  for (const auto& values : rows) {
    const Sums s = sums_of(values);
    for (const std::uint32_t own : values) EXPECT_EQ(odd_rank(own, s.n, s.sum, s.squares, s.by_rank), -1);
  }
  const double many = kNamedRanks + 1.0;
  EXPECT_EQ(odd_rank(1, many, many + 1, many + 3, 0), -1) << "sums by rank are no longer exact";
}

Fields offenders(const std::vector<std::uint32_t>& bad, std::uint32_t world, std::uint32_t attributing,
                 std::uint64_t reduced_inf = 1) {
  std::vector<Fields> ranks;
  for (std::uint32_t r = 0; r < world; ++r) {
    SummaryInput in;
    in.rank = r;
    in.local_nan = std::find(bad.begin(), bad.end(), r) != bad.end() ? 2 : 0;
    in.attributing = r < attributing;
    in.stats.inf = reduced_inf;
    ranks.push_back(summary_of(in));
  }
  return sum_of(ranks);
}

TEST(Offenders, OneSeveralTheReductionOrUnknown) {
  EXPECT_EQ(offending_rank(offenders({2}, 4, 4).data(), 4), 2);
  EXPECT_EQ(offending_rank(offenders({0}, 4, 1).data(), 4), 0) << "a rank that looked is enough to name it";
  EXPECT_EQ(offending_rank(offenders({1, 3}, 4, 4).data(), 4), kOffenderSeveral);
  EXPECT_EQ(offending_rank(offenders({}, 4, 4).data(), 4), kOffenderReduction);
  EXPECT_EQ(offending_rank(offenders({}, 4, 3).data(), 4), kOffenderUnknown) << "one rank did not look";
  EXPECT_EQ(offending_rank(offenders({}, 4, 4, 0).data(), 4), kOffenderUnknown) << "nothing to blame";
}

TEST(Offenders, TwoAreNamedBoth) {
  std::mt19937_64 random = seeded("pairs");
  for (int round = 0; round < 2000; ++round) {
    const double a = static_cast<double>(below(random, kMaxRanks));
    const double b = static_cast<double>(below(random, kMaxRanks));
    if (a == b) continue;
    Fields f{};
    f[kSumOffenders] = 2;
    f[kSumOffenderRank] = a + b;
    f[kSumOffenderRankSquared] = a * a + b * b;
    std::int32_t pair[2] = {-9, -9};
    ASSERT_TRUE(offending_pair(f.data(), pair));
    ASSERT_EQ(pair[0], std::min(a, b));
    ASSERT_EQ(pair[1], std::max(a, b));
  }
  std::int32_t pair[2] = {-9, -9};
  EXPECT_FALSE(offending_pair(offenders({1}, 4, 4).data(), pair));
  EXPECT_FALSE(offending_pair(offenders({1, 2, 3}, 4, 4).data(), pair));
  EXPECT_EQ(pair[0], -9);
}

TEST(PairwiseSumTest, HasTheShapeOfFoldingAnArrayByHalves) {
  std::mt19937_64 random = seeded("pairwise");
  for (std::size_t n = 0; n < 200; ++n) {
    std::vector<double> level(n);
    for (double& x : level)
      x = std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(below(random, 80)));
    PairwiseSum sum;
    for (const double x : level) sum.push(x);
    while (level.size() > 1) {
      std::vector<double> next;
      for (std::size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(level[i] + level[i + 1]);
      if (level.size() % 2 != 0) next.push_back(level.back());
      level = next;
    }
    ASSERT_EQ(bits(sum.total()), bits(n == 0 ? 0.0 : level[0])) << n << " values";
  }
}

}  // namespace
}  // namespace stepgate::test

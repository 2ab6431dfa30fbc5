// The reduction kernels alone: conversions exhaustively, edge values by table, every instruction set of
// this machine against the same reference.
#include "collectives/ucx/reduce.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/collectives/ucx/values.h"

namespace stepgate::transport::testing {
namespace {

template <typename T>
T combine(sgt_type type, sgt_reduction reduction, T first, T second, int size = 2, bool last = true) {
  const Reducer reducer(type, reduction, size);
  T out{};
  (last ? reducer.combine_last(&out, &first, &second, 1) : reducer.combine(&out, &first, &second, 1));
  return out;
}

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

// One value for all NaNs: they have one encoding after a reduction.
uint16_t quieted(sgt_type type, uint16_t bits) {
  const float value = type == SGT_FLOAT16 ? from_half(bits) : from_bfloat(bits);
  return !std::isnan(value) ? bits : type == SGT_FLOAT16 ? 0x7e00 : 0x7fc0;
}

class EveryTarget : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

std::vector<int64_t> targets() {
  std::vector<int64_t> found;
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t rest = usable; rest != 0; rest &= rest - 1) found.push_back(rest & -rest);
  return found;
}

INSTANTIATE_TEST_SUITE_P(All, EveryTarget, ::testing::ValuesIn(targets()),
                         [](const auto& i) { return std::string(hwy::TargetName(i.param)); });

// x * 1: widens and rounds back.
TEST_P(EveryTarget, Every16BitValueSurvivesWideningAndRounding) {
  for (const sgt_type type : {SGT_FLOAT16, SGT_BFLOAT16}) {
    const uint16_t one = type == SGT_FLOAT16 ? to_half(1) : to_bfloat(1);
    std::vector<uint16_t> all(1 << 16), ones(1 << 16, one), out(1 << 16);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
    Reducer(type, SGT_PROD, 2).combine(out.data(), all.data(), ones.data(), out.size());
    for (size_t i = 0; i < all.size(); ++i)
      ASSERT_EQ(out[i], quieted(type, all[i])) << name_of(type) << " bits " << i;
  }
}

TEST_P(EveryTarget, SumsRoundOnceToNearestEven) {
  std::mt19937 random(20240607);
  for (const sgt_type type : {SGT_FLOAT16, SGT_BFLOAT16}) {
    const auto widen = type == SGT_FLOAT16 ? from_half : from_bfloat;
    const auto narrow = type == SGT_FLOAT16 ? to_half : to_bfloat;
    std::vector<uint16_t> a(300001), b(a.size()), out(a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = static_cast<uint16_t>(random());
      // Near exponents make ties and carries common.
      b[i] = static_cast<uint16_t>(i % 2 ? random()
                                         : a[i] ^ (random() & (type == SGT_FLOAT16 ? 0x8fffu : 0x81ffu)));
    }
    for (const sgt_reduction reduction : {SGT_SUM, SGT_PROD}) {
      Reducer(type, reduction, 2).combine(out.data(), a.data(), b.data(), out.size());
      for (size_t i = 0; i < a.size(); ++i) {
        const float x = widen(a[i]), y = widen(b[i]);
        const uint16_t want = quieted(type, narrow(reduction == SGT_SUM ? x + y : x * y));
        ASSERT_EQ(out[i], want) << name_of(type) << " " << name_of(reduction) << " of " << x << " and " << y;
      }
    }
  }
}

// All pairs of values: widened, combined in fp32, rounded once, saturated.
TEST_P(EveryTarget, Fp8IsExhaustivelyRight) {
  for (const sgt_type type : {SGT_FLOAT8E4M3, SGT_FLOAT8E5M2}) {
    std::vector<uint8_t> a(1 << 16), b(a.size()), out(a.size());
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint8_t>(i), b[i] = static_cast<uint8_t>(i >> 8);
    for (const sgt_reduction reduction : {SGT_SUM, SGT_PROD, SGT_MAX, SGT_MIN}) {
      Reducer(type, reduction, 2).combine(out.data(), a.data(), b.data(), out.size());
      for (size_t i = 0; i < a.size(); ++i) {
        const auto x = static_cast<float>(from_fp8(type, a[i])), y = static_cast<float>(from_fp8(type, b[i]));
        const float exact = reduction == SGT_SUM    ? x + y
                            : reduction == SGT_PROD ? x * y
                            : reduction == SGT_MAX  ? std::fmax(x, y)
                                                    : std::fmin(x, y);
        uint8_t want = to_fp8(type, exact);
        const bool zeros = x == 0 && y == 0;  // of -0 and +0 the first
        if (zeros && reduction != SGT_SUM && reduction != SGT_PROD) want = a[i];
        ASSERT_EQ(out[i], want) << name_of(type) << " " << name_of(reduction) << " of " << x << " and " << y;
      }
    }
  }
}

TEST_P(EveryTarget, Fp8RoundsTiesToEvenAndSaturates) {
  const auto sum = [](sgt_type type, double a, double b) {
    return from_fp8(type, combine<uint8_t>(type, SGT_SUM, to_fp8(type, a), to_fp8(type, b)));
  };
  EXPECT_EQ(sum(SGT_FLOAT8E4M3, 16, 1), 16) << "17 lies between 16 and 18";
  EXPECT_EQ(sum(SGT_FLOAT8E4M3, 18, 1), 20) << "19 lies between 18 and 20";
  EXPECT_EQ(sum(SGT_FLOAT8E4M3, 448, 448), 448);
  EXPECT_EQ(sum(SGT_FLOAT8E5M2, -57344, -8192), -57344);
  EXPECT_EQ(sum(SGT_FLOAT8E5M2, HUGE_VAL, 1), 57344) << "an infinity becomes the largest value, as in NCCL";
  EXPECT_EQ(
      combine<uint8_t>(SGT_FLOAT8E4M3, SGT_AVG, to_fp8(SGT_FLOAT8E4M3, 448), to_fp8(SGT_FLOAT8E4M3, 448)),
      to_fp8(SGT_FLOAT8E4M3, 448))
      << "the wide sum is divided before it is rounded";
}

TEST_P(EveryTarget, ScalingMultipliesInTheType) {
  for (const sgt_type type : kAllTypes) {
    Buffer in(type, 1001), out(type, 1001), factor(type, 1);
    factor.set(0, 3);
    for (size_t i = 0; i < in.count(); ++i) in.set(i, sample(1, i, type, SGT_SUM));
    scale_elements(out.data(), in.data(), factor.data(), in.count(), type);
    for (size_t i = 0; i < in.count(); ++i)
      ASSERT_EQ(out.get(i), 3 * in.get(i)) << name_of(type) << " element " << i;
    scale_elements(in.data(), in.data(), factor.data(), in.count(), type);
    EXPECT_EQ(in.bytes(), out.bytes()) << name_of(type) << " in place";
  }
  // A third of 1 is rounded to the type before it multiplies: NCCL's rule too.
  const uint16_t third = to_half(1.0f / 3), three = to_half(3);
  uint16_t product = 0;
  scale_elements(&product, &three, &third, 1, SGT_FLOAT16);
  EXPECT_EQ(product, to_half(from_half(third) * 3));
}

TEST_P(EveryTarget, OutputMayBeEitherOperand) {
  for (const size_t count : {size_t{1}, size_t{7}, size_t{64}, size_t{1001}}) {
    std::vector<float> a(count), b(count);
    for (size_t i = 0; i < count; ++i) a[i] = static_cast<float>(i), b[i] = static_cast<float>(2 * i + 1);
    std::vector<float> first = a, second = b;
    const Reducer sum(SGT_FLOAT32, SGT_SUM, 2);
    sum.combine(first.data(), first.data(), b.data(), count);
    sum.combine(second.data(), a.data(), second.data(), count);
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(first[i], static_cast<float>(3 * i + 1));
    ASSERT_EQ(first, second);
  }
}

TEST_P(EveryTarget, NanSpreadsInSumsAndProducts) {
  for (const sgt_reduction reduction : {SGT_SUM, SGT_PROD, SGT_AVG}) {
    EXPECT_TRUE(std::isnan(combine(SGT_FLOAT32, reduction, kNan, 1.0f)));
    EXPECT_TRUE(std::isnan(combine(SGT_FLOAT32, reduction, 1.0f, kNan)));
    EXPECT_TRUE(std::isnan(combine(SGT_FLOAT64, reduction, 1.0, static_cast<double>(kNan))));
    EXPECT_TRUE(std::isnan(from_half(combine<uint16_t>(SGT_FLOAT16, reduction, to_half(1), 0x7c01))));
    EXPECT_TRUE(std::isnan(from_bfloat(combine<uint16_t>(SGT_BFLOAT16, reduction, 0xff81, to_bfloat(2)))));
  }
  EXPECT_TRUE(std::isnan(combine(SGT_FLOAT32, SGT_SUM, kInf, -kInf)));
}

TEST_P(EveryTarget, NansHaveOneEncodingWhateverTheOperands) {
  const float one = std::bit_cast<float>(0xffc01234u), other = std::bit_cast<float>(0x7fc00042u);
  const auto bits = [](float f) { return std::bit_cast<uint32_t>(f); };
  for (const sgt_reduction reduction : kAllReductions) {
    EXPECT_EQ(bits(combine(SGT_FLOAT32, reduction, one, other)), 0x7fc00000u) << name_of(reduction);
    EXPECT_EQ(bits(combine(SGT_FLOAT32, reduction, other, one)), 0x7fc00000u) << name_of(reduction);
  }
}

TEST_P(EveryTarget, MaximumAndMinimumDropANan) {
  for (const sgt_reduction reduction : {SGT_MAX, SGT_MIN}) {
    EXPECT_EQ(combine(SGT_FLOAT32, reduction, kNan, -3.0f), -3.0f);
    EXPECT_EQ(combine(SGT_FLOAT32, reduction, -3.0f, kNan), -3.0f);
    EXPECT_EQ(from_half(combine<uint16_t>(SGT_FLOAT16, reduction, 0x7e00, to_half(5))), 5.0f);
    EXPECT_TRUE(std::isnan(combine(SGT_FLOAT32, reduction, kNan, kNan)));
  }
  EXPECT_EQ(combine(SGT_FLOAT32, SGT_MAX, -kInf, kInf), kInf);
}

TEST_P(EveryTarget, OverflowsBecomeInfinity) {
  EXPECT_EQ(combine<uint16_t>(SGT_FLOAT16, SGT_SUM, to_half(65504), to_half(65504)), 0x7c00);
  EXPECT_EQ(combine<uint16_t>(SGT_FLOAT16, SGT_SUM, to_half(-65504), to_half(-16)), 0xfc00);  // a tie goes up
  EXPECT_EQ(combine<uint16_t>(SGT_FLOAT16, SGT_SUM, to_half(65504), to_half(8)), to_half(65504));
  EXPECT_EQ(combine<uint16_t>(SGT_BFLOAT16, SGT_SUM, 0x7f7f, 0x7f7f), 0x7f80);
}

TEST_P(EveryTarget, AverageDividesTheWideSumOnce) {
  // 65504 + 65504 overflows fp16, its half does not.
  EXPECT_EQ(combine<uint16_t>(SGT_FLOAT16, SGT_AVG, to_half(65504), to_half(65504)), to_half(65504));
  EXPECT_EQ(combine(SGT_FLOAT32, SGT_AVG, 1.0f, 0.0f, 3), 1.0f / 3.0f);
  EXPECT_EQ(combine(SGT_FLOAT64, SGT_AVG, 1.0, 0.0, 3), 1.0 / 3.0);
  EXPECT_EQ(combine(SGT_FLOAT32, SGT_AVG, 1.0f, 0.5f, 3, false), 1.5f) << "an inner hop divides nothing";
}

TEST_P(EveryTarget, IntegersWrapAndTheirAverageTruncatesTowardsZero) {
  EXPECT_EQ(combine<int8_t>(SGT_INT8, SGT_SUM, 127, 1), -128);
  EXPECT_EQ(combine<int32_t>(SGT_INT32, SGT_SUM, std::numeric_limits<int32_t>::max(), 1),
            std::numeric_limits<int32_t>::min());
  EXPECT_EQ(combine<int64_t>(SGT_INT64, SGT_PROD, int64_t{1} << 62, 4), 0);
  EXPECT_EQ(combine<uint64_t>(SGT_UINT64, SGT_SUM, ~uint64_t{0}, 2), 1u);
  EXPECT_EQ(combine<uint32_t>(SGT_UINT32, SGT_MAX, 0x80000000u, 1), 0x80000000u);
  EXPECT_EQ(combine<int32_t>(SGT_INT32, SGT_AVG, -4, -3), -3);
  EXPECT_EQ(combine<uint64_t>(SGT_UINT64, SGT_AVG, uint64_t{1} << 63, 6), (uint64_t{1} << 62) + 3);
  EXPECT_EQ(combine<uint8_t>(SGT_UINT8, SGT_AVG, 200, 100), 22) << "(300 mod 256) / 2";
}

#if defined(__x86_64__)
TEST_P(EveryTarget, FlushToZeroOfTheCallerIsIgnoredAndKept) {
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040);  // flush results, treat operands as zero
  const float sum = combine(SGT_FLOAT32, SGT_SUM, 1e-40f, 0.0f);
  const uint16_t half = combine<uint16_t>(SGT_FLOAT16, SGT_SUM, 1, 1);
  const unsigned after = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before);
  EXPECT_NE(std::bit_cast<uint32_t>(sum), 0u);
  EXPECT_EQ(half, 2);
  EXPECT_EQ(after & 0x8040, 0x8040u);
}
#endif

}  // namespace
}  // namespace stepgate::transport::testing

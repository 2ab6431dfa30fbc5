#include "collectives/core/simulate.h"

#include "collectives/core/decimal.h"
#include "tests/collectives/core/support.h"

namespace stepgate::test {
namespace {

TEST(Simulate, ScalesAfterEachStep) {
  ScalerParams p = default_params(ScalerRule::kTorch);
  p.interval = 2;
  EXPECT_EQ(simulate_scales(p, "x..x").scales, (std::vector<double>{32768, 32768, 65536, 32768}));
  EXPECT_TRUE(simulate_scales(p, "").scales.empty());
  EXPECT_EQ(simulate_scales(p, "").error, "");
}

TEST(Simulate, BadCharactersAreNamedWithTheirPlace) {
  const ScalerParams p = default_params(ScalerRule::kTorch);
  EXPECT_EQ(simulate_scales(p, "x.o").error,
            "pattern: step 3 is 'o'; allowed: 'x' (overflow) and '.' (good step)");
  EXPECT_EQ(simulate_scales(p, ".\n").error,
            "pattern: step 2 is byte 0x0a; allowed: 'x' (overflow) and '.' (good step)");
  EXPECT_NE(simulate_scales(p, "X").error, "");
  EXPECT_TRUE(simulate_scales(p, "x.o").scales.empty());
}

TEST(Simulate, BadParametersAreRefused) {
  ScalerParams p = default_params(ScalerRule::kTorch);
  p.interval = 0;
  EXPECT_EQ(simulate_scales(p, "x").error, invalid_params(p));
  EXPECT_TRUE(simulate_scales(p, "x").scales.empty());
}

TEST(ShortestDecimal, KnownTexts) {
  const std::pair<double, const char*> rows[] = {
      {0, "0"},
      {-0.0, "-0"},
      {1, "1"},
      {0.1, "0.1"},
      {65536, "65536"},
      {16777216, "16777216"},
      {1000000, "1000000"},
      {9007199254740991, "9007199254740991"},
      {0x1p127, "1.7014118346046923e+38"},
      {6.300000190734863, "6.300000190734863"},
      {0x1p-24, "5.960464477539063e-08"},
      {5e-324, "5e-324"},
      {-1.5, "-1.5"},
      {INFINITY, "inf"},
      {-INFINITY, "-inf"},
      {NAN, "nan"},
      {-NAN, "nan"},
  };
  for (const auto& [value, text] : rows) EXPECT_EQ(shortest_decimal(value), text);
}

TEST(ShortestDecimal, ReadsBackAsTheSameBits) {
  std::mt19937_64 random = seeded("round trip");
  for (int i = 0; i < 20000; ++i) {
    const auto x = std::bit_cast<double>(random());
    if (!std::isfinite(x)) continue;
    const std::string text = shortest_decimal(x);
    ASSERT_EQ(bits(std::strtod(text.c_str(), nullptr)), bits(x)) << text;
  }
}

}  // namespace
}  // namespace stepgate::test

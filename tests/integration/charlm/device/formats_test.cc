// The device's fp16 and bf16 are the host's, bit for bit.
#include "integration/examples/charlm/device/formats.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

#include "integration/examples/charlm/half.h"
#include "tests/collectives/device_cuda_driver/standin.h"
#include "tests/test_seed.h"

namespace stepgate::charlm {
namespace {

std::uint32_t bits(float x) {
  return std::bit_cast<std::uint32_t>(x);
}

TEST(CharlmDeviceFormats, EveryHalfWidensAsOnTheHost) {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    ASSERT_EQ(bits(widen_fp16(half)), bits(half_value(half))) << i;
    ASSERT_EQ(bits(widen_bf16(half)), bits(bfloat_value(half))) << i;
  }
}

// Every half, the floats around it and around the middle to the next one.
std::vector<float> floats_that_round_badly() {
  std::vector<float> all;
  for (std::uint32_t i = 0; i < 0x7c00; ++i) {
    const float here = half_value(static_cast<std::uint16_t>(i));
    const float next = i + 1 < 0x7c00 ? half_value(static_cast<std::uint16_t>(i + 1)) : 65536.0f;
    for (const float x : {here, (here + next) / 2}) {
      for (const std::uint32_t b : {bits(x) - 1, bits(x), bits(x) + 1}) {
        all.push_back(std::bit_cast<float>(b));
        all.push_back(std::bit_cast<float>(b ^ 0x80000000u));
      }
    }
  }
  return all;
}

TEST(CharlmDeviceFormats, FloatsAreNarrowedAsOnTheHost) {
  std::vector<float> all = floats_that_round_badly();
  std::mt19937 random(static_cast<unsigned>(test::test_seed()));
  for (int i = 0; i < 1'000'000; ++i)
    all.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (const float x : all) ASSERT_EQ(narrow_fp16(x), half_bits(x)) << std::hexfloat << x;
}

}  // namespace
}  // namespace stepgate::charlm

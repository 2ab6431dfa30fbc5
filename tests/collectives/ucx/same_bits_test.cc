// All ranks receive identical bytes from an all-reduce, whatever rounds on the way: random 16-bit data
// with infinities, NaNs and subnormals. The seed is printed and can be set with STEPGATE_TEST_SEED.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <random>
#include <tuple>

#include "tests/collectives/ucx/ranks.h"
#include "tests/collectives/ucx/values.h"
#include "tests/test_seed.h"

namespace stepgate::transport::testing {
namespace {

using Case = std::tuple<const char*, int, sgt_type>;
std::string case_name(const ::testing::TestParamInfo<Case>& tested) {
  const auto& [transports, size, type] = tested.param;
  return std::string(transports) + "_" + std::to_string(size) + "_" + name_of(type);
}

class SameBits : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(All, SameBits,
                         ::testing::Combine(::testing::Values("tcp", "shm"),
                                            ::testing::Values(2, 3, 4, 5, 7, 8),
                                            ::testing::Values(SGT_FLOAT16, SGT_BFLOAT16, SGT_FLOAT32)),
                         case_name);

// Where operand order could show: both zeros, infinities, NaNs with payloads and signs, subnormals.
constexpr uint32_t kSpecials[] = {0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7fc01234,
                                  0xffc04321, 0x7f800001, 0x00000001, 0x80000001, 0x7f7fffff};

uint32_t special_bits(sgt_type type, uint64_t pick) {
  const uint32_t bits = kSpecials[pick % std::size(kSpecials)];
  if (type == SGT_FLOAT32) return bits;
  if (type == SGT_BFLOAT16) return bits >> 16 | (bits & 1u);
  return (bits >> 16 & 0x8000u) | (bits >> 13 & 0x7fffu & 0x7c00u) | (bits & 0x3ffu);
}

Buffer random_bits(uint64_t seed, int rank, sgt_type type, size_t count) {
  std::mt19937_64 random(seed + static_cast<uint64_t>(rank) * 1000003);
  Buffer buffer(type, count);
  const size_t width = buffer.bytes().size() / count;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = random() % 4 == 0 ? special_bits(type, random()) : static_cast<uint32_t>(random());
    std::memcpy(buffer.at(i), &bits, width);  // little-endian: the low half of a 16-bit type
  }
  return buffer;
}

TEST_P(SameBits, OnAllRanks) {
  const auto& [transports, size, type] = GetParam();
  const uint64_t seed = test::test_seed();
  const sgt_type of = type;
  for (const size_t count : {size_t{1}, size_t{1023}, size_t{70001}}) {
    for (const sgt_reduction reduction : kAllReductions) {
      std::vector<std::vector<unsigned char>> results(static_cast<size_t>(size));
      run_ranks(size, {transports, 60}, [&](Rank& rank) {
        Buffer data = random_bits(seed, rank.rank, of, count);
        const Outcome outcome = rank.allreduce(data.data(), data.data(), count, of, reduction);
        ASSERT_EQ(outcome.status, SGT_OK) << outcome.error.message;
        results[static_cast<size_t>(rank.rank)] = data.bytes();
      });
      for (const auto& result : results)
        ASSERT_TRUE(result == results[0]) << name_of(reduction) << " of " << count << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace stepgate::transport::testing

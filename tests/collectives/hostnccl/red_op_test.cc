// The operators that a program makes itself, through the built library.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/collectives/hostnccl/ranks.h"
#include "tests/collectives/hostnccl/typed_buffer.h"

namespace stepgate::hostnccl::test {
namespace {

class PreMulSum : public testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, PreMulSum, testing::Range(1, 9));

// Small enough for fp8: of each rank's number only the sign and the parity differ.
double factor(ncclDataType_t type, int rank) {
  if (is_fp8(type)) return rank % 2 == 0 ? 1 : -1;
  return is_integer(type) ? 1 + rank % 3 : rank % 2 == 0 ? 2 : -0.5;
}

double value(ncclDataType_t type, int rank, std::size_t index) {
  const auto mixed = static_cast<double>((index + static_cast<std::size_t>(rank)) % 3);
  return is_fp8(type) ? mixed - 1 : 2 * mixed;
}

double expected(ncclDataType_t type, int size, std::size_t index) {
  double sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += factor(type, rank) * value(type, rank, index);
  return sum;
}

void expect_sum(const TypedBuffer& buffer, std::size_t at, std::size_t count, ncclDataType_t type, int size,
                std::size_t first = 0) {
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(buffer.get(at + i), expected(type, size, first + i))
        << "type " << type << " count " << count << " element " << i;
}

TypedBuffer values(ncclDataType_t type, int rank, std::size_t count) {
  TypedBuffer buffer(type, count);
  for (std::size_t i = 0; i < count; ++i) buffer.set(i, value(type, rank, i));
  return buffer;
}

TEST_P(PreMulSum, MultipliesEachRanksShareByItsOwnScalar) {
  const auto ranks = static_cast<std::size_t>(size());
  run_ranks(size(), [&](int rank, ncclComm_t comm) {
    for (const ncclDataType_t type : kTypes) {
      for (const ncclScalarResidence_t residence : {ncclScalarHostImmediate, ncclScalarDevice}) {
        TypedBuffer scalar(type, 1);
        scalar.set(0, factor(type, rank));
        ncclRedOp_t op = ncclSum;
        ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, scalar.data(), type, residence, comm), ncclSuccess)
            << failure();
        EXPECT_GE(op, ncclNumOps);
        // An immediate one has been read by now.
        if (residence == ncclScalarHostImmediate) scalar.set(0, 7);
        for (const std::size_t count : {std::size_t{1}, std::size_t{9001}}) {
          TypedBuffer in = values(type, rank, count);
          const TypedBuffer before = in;
          TypedBuffer out(type, count);
          ASSERT_EQ(ncclAllReduce(in.data(), out.data(), count, type, op, comm, nullptr), ncclSuccess)
              << failure();
          expect_sum(out, 0, count, type, size());
          ASSERT_EQ(in.bytes(), before.bytes()) << "the send buffer stays as it was";
          ASSERT_EQ(ncclReduce(in.data(), out.data(), count, type, op, size() - 1, comm, nullptr),
                    ncclSuccess)
              << failure();
          if (rank == size() - 1) expect_sum(out, 0, count, type, size());
          ASSERT_EQ(in.bytes(), before.bytes());
          ASSERT_EQ(ncclAllReduce(in.data(), in.data(), count, type, op, comm, nullptr), ncclSuccess)
              << failure();
          expect_sum(in, 0, count, type, size());
          TypedBuffer all = values(type, rank, count * ranks);
          const auto place = static_cast<std::size_t>(rank) * count;
          ASSERT_EQ(ncclReduceScatter(all.data(), all.at(place), count, type, op, comm, nullptr), ncclSuccess)
              << failure();
          expect_sum(all, place, count, type, size(), place);
        }
        EXPECT_EQ(ncclRedOpDestroy(op, comm), ncclSuccess) << failure();
      }
    }
  });
}

TEST(RedOp, AScalarOnTheDeviceIsReadWhenTheCollectiveRuns) {
  run_ranks(1, [](int, ncclComm_t comm) {
    double scalar = 2;
    double data = 5;
    ncclRedOp_t op = ncclSum;
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat64, ncclScalarDevice, comm), ncclSuccess);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(&data, &data, 1, ncclFloat64, op, comm, nullptr), ncclSuccess);
    ASSERT_EQ(ncclRedOpDestroy(op, comm), ncclSuccess) << "a call that uses it keeps what it needs";
    scalar = 3;
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
    EXPECT_EQ(data, 15);
  });
}

TEST(RedOp, WhatIsRefused) {
  run_ranks(1, [](int, ncclComm_t comm) {
    float scalar = 2;
    float data = 1;
    ncclRedOp_t op = ncclSum;
    const auto unknown = static_cast<ncclDataType_t>(12);
    const auto sum = [&](ncclRedOp_t with, ncclDataType_t type, std::size_t count) {
      return ncclAllReduce(&data, &data, count, type, with, comm, nullptr);
    };
    EXPECT_EQ(ncclRedOpCreatePreMulSum(nullptr, &scalar, ncclFloat32, ncclScalarHostImmediate, comm),
              ncclInvalidArgument);
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, nullptr, ncclFloat32, ncclScalarHostImmediate, comm),
              ncclInvalidArgument);
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarHostImmediate, nullptr),
              ncclInvalidArgument);
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, &scalar, unknown, ncclScalarHostImmediate, comm),
              ncclInternalError);
    EXPECT_EQ(op, ncclSum);
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarHostImmediate, comm),
              ncclSuccess);
    EXPECT_EQ(sum(op, ncclInt32, 1), ncclInvalidArgument) << "made for another type";
    EXPECT_NE(failure().find("made for datatype 7"), std::string::npos) << failure();
    EXPECT_EQ(sum(op, ncclInt32, 0), ncclSuccess) << "NCCL drops an empty call first";
    EXPECT_EQ(sum(op, ncclFloat32, 1), ncclSuccess) << failure();
    EXPECT_EQ(data, 2);
    for (const int number : {-1, 0, 4, op + 1})
      EXPECT_EQ(ncclRedOpDestroy(static_cast<ncclRedOp_t>(number), comm), ncclInvalidArgument) << number;
    EXPECT_EQ(ncclRedOpDestroy(op, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclRedOpDestroy(op, comm), ncclSuccess);
    EXPECT_EQ(ncclRedOpDestroy(op, comm), ncclInvalidArgument) << "twice";
    EXPECT_EQ(sum(op, ncclFloat32, 1), ncclInvalidArgument);
    EXPECT_NE(failure().find("unknown to this communicator"), std::string::npos) << failure();
  });
}

TEST(RedOp, BelongsToItsCommunicator) {
  const std::vector<ncclComm_t> first = make_clique(1);
  const std::vector<ncclComm_t> second = make_clique(1);
  float data = 1;
  ncclRedOp_t op = ncclSum;
  ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &data, ncclFloat32, ncclScalarHostImmediate, first[0]),
            ncclSuccess);
  EXPECT_EQ(ncclAllReduce(&data, &data, 1, ncclFloat32, op, second[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpDestroy(op, second[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(first[0]), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(second[0]), ncclSuccess);
}

}  // namespace
}  // namespace stepgate::hostnccl::test

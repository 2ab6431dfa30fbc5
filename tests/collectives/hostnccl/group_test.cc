// Groups through the built library.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/collectives/hostnccl/ranks.h"

namespace stepgate::hostnccl::test {
namespace {

constexpr std::size_t kCount = 5000;

struct Buffers {
  explicit Buffers(float value) : data(kCount, value) {}
  std::vector<float> data;

  ncclResult_t sum(ncclComm_t comm) {
    return ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr);
  }
  bool all(float value) const {
    return std::all_of(data.begin(), data.end(), [&](float x) { return x == value; });
  }
};

TEST(Groups, NestedOnesStartAtTheOutermostEnd) {
  run_ranks(3, [](int, ncclComm_t comm) {
    Buffers first(1);
    Buffers second(2);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(first.sum(comm), ncclSuccess);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(second.sum(comm), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_TRUE(first.all(1) && second.all(2)) << "nothing runs before the outermost end";
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
    EXPECT_TRUE(first.all(3) && second.all(6));
  });
}

TEST(Groups, ManyDifferentOperationsInOneFlight) {
  constexpr int kSize = 4;
  run_ranks(kSize, [](int rank, ncclComm_t comm) {
    std::vector<Buffers> sums;
    for (int i = 0; i < 20; ++i) sums.emplace_back(static_cast<float>(i));
    std::vector<int> gathered(kSize, -1);
    Buffers sent(static_cast<float>(rank));
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (Buffers& buffer : sums) ASSERT_EQ(buffer.sum(comm), ncclSuccess);
    ASSERT_EQ(ncclAllGather(&rank, gathered.data(), 1, ncclInt32, comm, nullptr), ncclSuccess);
    ASSERT_EQ(ncclBcast(sent.data.data(), kCount, ncclFloat32, 2, comm, nullptr), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
    for (int i = 0; i < 20; ++i)
      EXPECT_TRUE(sums[static_cast<std::size_t>(i)].all(static_cast<float>(kSize * i)));
    EXPECT_EQ(gathered, (std::vector<int>{0, 1, 2, 3}));
    EXPECT_TRUE(sent.all(2));
  });
}

TEST(Groups, SeveralCommunicatorsInOneGroup) {
  constexpr int kSize = 3;
  const std::vector<ncclComm_t> left = make_clique(kSize);
  const std::vector<ncclComm_t> right = make_clique(kSize);
  in_threads(kSize, [&](int rank) {
    const auto place = static_cast<std::size_t>(rank);
    Buffers a(1);
    Buffers b(10);
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    // Half of the ranks name them in the other order: only the order per communicator counts.
    EXPECT_EQ(rank % 2 == 0 ? a.sum(left[place]) : b.sum(right[place]), ncclSuccess);
    EXPECT_EQ(rank % 2 == 0 ? b.sum(right[place]) : a.sum(left[place]), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
    EXPECT_TRUE(a.all(3) && b.all(30));
    EXPECT_EQ(ncclCommDestroy(left[place]), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(right[place]), ncclSuccess);
  });
}

TEST(Groups, OneThreadDrivesAllRanksOfAClique) {
  constexpr int kSize = 4;
  const std::vector<ncclComm_t> comms = make_clique(kSize);
  std::vector<Buffers> buffers(kSize, Buffers(1));
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (std::size_t i = 0; i < kSize; ++i) ASSERT_EQ(buffers[i].sum(comms[i]), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
  for (const Buffers& buffer : buffers) EXPECT_TRUE(buffer.all(kSize));
  in_threads(kSize, [&](int rank) {
    EXPECT_EQ(ncclCommDestroy(comms[static_cast<std::size_t>(rank)]), ncclSuccess);
  });
}

TEST(Groups, BadArgumentInsideMakesTheOutermostEndFailAndNothingStarts) {
  run_ranks(2, [](int, ncclComm_t comm) {
    Buffers buffer(1);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(buffer.sum(comm), ncclSuccess);
    ASSERT_EQ(ncclBcast(buffer.data.data(), 1, ncclFloat32, 9, comm, nullptr), ncclInvalidArgument);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_NE(failure().find("root 9"), std::string::npos) << failure();
    EXPECT_TRUE(buffer.all(1));
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << "the depth is 0 again";
    EXPECT_EQ(buffer.sum(comm), ncclSuccess) << failure();
    EXPECT_TRUE(buffer.all(2));
  });
}

TEST(Groups, DepthBelongsToTheThread) {
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  std::thread([] { EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage); }).join();
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
}

}  // namespace
}  // namespace stepgate::hostnccl::test

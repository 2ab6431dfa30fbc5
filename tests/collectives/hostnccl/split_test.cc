// ncclCommSplit through the built library.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/collectives/hostnccl/lifecycle.h"

namespace stepgate::hostnccl::test {
namespace {

class Split : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Split, testing::Range(1, 9));

// Three colors, keys that turn the order round.
TEST_P(Split, ColorsPartAndKeysOrder) {
  const int size = GetParam();
  run_ranks(size, [&](int rank, ncclComm_t comm) {
    ncclComm_t child = kUntouched;
    ASSERT_EQ(ncclCommSplit(comm, rank % 3, -rank, &child, nullptr), ncclSuccess) << failure();
    std::vector<int> members;
    for (int r = size - 1; r >= 0; --r) {
      if (r % 3 == rank % 3) members.push_back(r);
    }
    EXPECT_EQ(size_of(child), static_cast<int>(members.size()));
    EXPECT_EQ(members[at(rank_of(child))], rank);
    int sum = 0;
    for (const int member : members) sum += member;
    EXPECT_EQ(sum_over(child, rank), sum) << failure();
    EXPECT_EQ(sum_over(comm, rank), size * (size - 1) / 2) << "the parent goes on";
    EXPECT_EQ(ncclCommDestroy(child), ncclSuccess) << failure();
  });
}

TEST_P(Split, EqualKeysKeepTheParentsOrder) {
  run_ranks(GetParam(), [&](int rank, ncclComm_t comm) {
    ncclComm_t child = nullptr;
    ASSERT_EQ(ncclCommSplit(comm, 7, 5, &child, nullptr), ncclSuccess) << failure();
    EXPECT_EQ(rank_of(child), rank);
    EXPECT_EQ(ncclCommDestroy(child), ncclSuccess) << failure();
  });
}

TEST_P(Split, NoColorTakesPartAndGetsNull) {
  const int size = GetParam();
  run_ranks(size, [&](int rank, ncclComm_t comm) {
    ncclComm_t child = kUntouched;
    const int color = rank == 0 ? NCCL_SPLIT_NOCOLOR : 0;
    ASSERT_EQ(ncclCommSplit(comm, color, rank, &child, nullptr), ncclSuccess) << failure();
    if (rank == 0) {
      EXPECT_EQ(child, nullptr);
      return;
    }
    EXPECT_EQ(size_of(child), size - 1);
    EXPECT_EQ(rank_of(child), rank - 1);
    EXPECT_EQ(ncclCommDestroy(child), ncclSuccess) << failure();
  });
}

TEST(Splits, ChildrenOutliveTheirParentAndHaveChildren) {
  const std::vector<ncclComm_t> parents = make_clique(4);
  in_threads(4, [&](int rank) {
    ncclComm_t pair = nullptr;
    ASSERT_EQ(ncclCommSplit(parents[at(rank)], rank / 2, rank, &pair, nullptr), ncclSuccess) << failure();
    ASSERT_EQ(ncclCommDestroy(parents[at(rank)]), ncclSuccess) << failure();
    ncclComm_t swapped = nullptr;
    ASSERT_EQ(ncclCommSplit(pair, 0, -rank, &swapped, nullptr), ncclSuccess) << failure();
    EXPECT_EQ(rank_of(swapped), 1 - rank % 2);
    EXPECT_EQ(sum_over(swapped, 1), 2) << failure();
    EXPECT_EQ(ncclCommDestroy(pair), ncclSuccess) << failure();
    EXPECT_EQ(sum_over(swapped, 2), 4) << failure();
    EXPECT_EQ(ncclCommDestroy(swapped), ncclSuccess) << failure();
  });
}

TEST(Splits, ManyOfTheSameAreDifferent) {
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    std::vector<ncclComm_t> children(5, nullptr);
    for (ncclComm_t& child : children) {
      ASSERT_EQ(ncclCommSplit(comm, 0, rank, &child, nullptr), ncclSuccess) << failure();
    }
    for (ncclComm_t child : children) EXPECT_EQ(sum_over(child, rank), 1) << failure();
    for (ncclComm_t child : children) EXPECT_EQ(ncclCommDestroy(child), ncclSuccess) << failure();
  });
}

// Whether a call blocks is what a program can see of a configuration.
TEST(Splits, ConfigurationIsInheritedUnlessOneIsGiven) {
  std::vector<ncclComm_t> parents = make_non_blocking_clique(2);
  std::vector<ncclComm_t> heirs(2, nullptr);
  std::vector<ncclComm_t> others(2, nullptr);
  ncclConfig_t defaults = NCCL_CONFIG_INITIALIZER;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(ncclCommSplit(parents[at(i)], 0, i, &heirs[at(i)], nullptr), ncclInProgress) << failure();
  }
  for (ncclComm_t parent : parents) ASSERT_EQ(settled(parent), ncclSuccess) << failure();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(ncclCommSplit(parents[at(i)], 0, i, &others[at(i)], &defaults), ncclInProgress) << failure();
  }
  for (ncclComm_t parent : parents) ASSERT_EQ(settled(parent), ncclSuccess) << failure();
  in_threads(2, [&](int i) {
    int value = i;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, heirs[at(i)], nullptr), ncclInProgress);
    EXPECT_EQ(settled(heirs[at(i)]), ncclSuccess) << failure();
    EXPECT_EQ(value, 1);
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, others[at(i)], nullptr), ncclSuccess);
    EXPECT_EQ(value, 2);
  });
  for (const auto& comms : {heirs, others, parents}) end_all(comms);
}

TEST(Splits, WhereCallsDoNotBlockTheHandleComesLater) {
  std::vector<ncclComm_t> parents = make_non_blocking_clique(3);
  std::vector<ncclComm_t> children(3, kUntouched);
  ASSERT_EQ(ncclCommSplit(parents[0], 0, 0, &children[0], nullptr), ncclInProgress) << failure();
  EXPECT_EQ(children[0], nullptr) << "the others have not called";
  EXPECT_EQ(async_state(parents[0]), ncclInProgress);
  int value = 1;
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, parents[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommCount(parents[0], &value), ncclInvalidArgument) << "NCCL joins the thread first";
  for (int i = 1; i < 3; ++i) {
    ASSERT_EQ(ncclCommSplit(parents[at(i)], i == 2 ? NCCL_SPLIT_NOCOLOR : 0, i, &children[at(i)], nullptr),
              ncclInProgress);
  }
  for (ncclComm_t parent : parents) EXPECT_EQ(settled(parent), ncclSuccess) << failure();
  EXPECT_EQ(size_of(children[0]), 2);
  EXPECT_EQ(rank_of(children[1]), 1);
  EXPECT_EQ(children[2], nullptr);
  children.pop_back();
  end_all(children);
  end_all(parents);
}

TEST(Splits, OneThreadSplitsAllRanksInAGroup) {
  const std::vector<ncclComm_t> parents = make_clique(4);
  std::vector<ncclComm_t> children(4, kUntouched);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(ncclCommSplit(parents[at(i)], i % 2, i, &children[at(i)], nullptr), ncclSuccess) << failure();
    EXPECT_EQ(children[at(i)], nullptr) << "until the group's end";
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
  in_threads(4, [&](int i) { EXPECT_EQ(sum_over(children[at(i)], i), i % 2 == 0 ? 2 : 4) << failure(); });
  end_all(children);
  end_all(parents);
}

// In the order of the calls on each rank, whatever the threads behind it do.
TEST(Splits, TwoOfOneCommunicatorInOneGroup) {
  run_ranks(3, [](int rank, ncclComm_t comm) {
    ncclComm_t forward = nullptr;
    ncclComm_t backward = nullptr;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclCommSplit(comm, 0, rank, &forward, nullptr), ncclSuccess) << failure();
    ASSERT_EQ(ncclCommSplit(comm, 0, -rank, &backward, nullptr), ncclSuccess) << failure();
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
    EXPECT_EQ(rank_of(forward), rank);
    EXPECT_EQ(rank_of(backward), 2 - rank);
    EXPECT_EQ(ncclCommDestroy(forward), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(backward), ncclSuccess);
  });
}

TEST(Splits, APeersAbortEndsItByName) {
  const std::vector<ncclComm_t> comms = make_clique(3);
  in_threads(3, [&](int rank) {
    if (rank == 2) {
      EXPECT_EQ(ncclCommAbort(comms[2]), ncclSuccess);
      return;
    }
    ncclComm_t child = kUntouched;
    EXPECT_EQ(ncclCommSplit(comms[at(rank)], 0, rank, &child, nullptr), ncclRemoteError);
    EXPECT_NE(failure().find("rank 2"), std::string::npos) << failure();
    EXPECT_EQ(child, nullptr);
    EXPECT_EQ(ncclCommDestroy(comms[at(rank)]), ncclSuccess) << failure();
  });
}

// The colors have been gathered; the new communicator's ranks wait for one that never comes.
TEST(Splits, AnAbortBetweenItsTwoHalvesEndsIt) {
  const std::vector<ncclComm_t> comms = make_clique(3);
  in_threads(3, [&](int rank) {
    if (rank == 2) {
      // Its part of the first half, by hand: what a rank that dies behind it leaves.
      const int mine[2] = {0, 2};
      int all[6];
      EXPECT_EQ(ncclAllGather(mine, all, 2, ncclInt32, comms[2], nullptr), ncclSuccess) << failure();
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      EXPECT_EQ(ncclCommAbort(comms[2]), ncclSuccess);
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    ncclComm_t child = kUntouched;
    EXPECT_EQ(ncclCommSplit(comms[at(rank)], 0, rank, &child, nullptr), ncclRemoteError);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(50)) << "not by the deadline";
    EXPECT_NE(failure().find("rank 2"), std::string::npos) << failure();
    EXPECT_EQ(child, nullptr);
    EXPECT_EQ(ncclCommDestroy(comms[at(rank)]), ncclSuccess) << failure();
  });
}

TEST(Splits, AbortFromAnotherThreadEndsIt) {
  const std::vector<ncclComm_t> comms = make_clique(2);
  std::atomic<bool> entered{false};
  ncclResult_t result = ncclSuccess;
  std::thread blocked([&] {
    ncclComm_t child = nullptr;
    entered = true;
    result = ncclCommSplit(comms[0], 0, 0, &child, nullptr);
  });
  while (!entered) std::this_thread::yield();
  EXPECT_EQ(ncclCommAbort(comms[0]), ncclSuccess) << failure();
  blocked.join();
  EXPECT_TRUE(result == ncclInternalError || result == ncclInvalidArgument) << result;
  EXPECT_EQ(ncclCommAbort(comms[1]), ncclSuccess);
}

TEST(Splits, AFailureThatDoesNotBlockIsTheParents) {
  std::vector<ncclComm_t> comms = make_non_blocking_clique(2);
  ncclComm_t child = kUntouched;
  ASSERT_EQ(ncclCommSplit(comms[0], 0, 0, &child, nullptr), ncclInProgress);
  EXPECT_EQ(ncclCommAbort(comms[1]), ncclSuccess);
  EXPECT_EQ(settled(comms[0]), ncclRemoteError) << failure();
  EXPECT_EQ(child, nullptr);
  EXPECT_EQ(ncclCommAbort(comms[0]), ncclSuccess);
}

}  // namespace
}  // namespace stepgate::hostnccl::test

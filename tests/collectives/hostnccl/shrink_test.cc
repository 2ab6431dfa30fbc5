// ncclCommShrink and ncclCommRevoke through the built library: what goes on when ranks do not.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/collectives/hostnccl/lifecycle.h"

namespace stepgate::hostnccl::test {
namespace {

int sum_without(int size, const std::vector<int>& excluded) {
  int sum = size * (size - 1) / 2;
  for (const int rank : excluded) sum -= rank;
  return sum;
}

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

ncclResult_t shrink(ncclComm_t comm, std::vector<int> excluded, ncclComm_t* child, int flags,
                    ncclConfig_t* config = nullptr) {
  return ncclCommShrink(comm, excluded.data(), static_cast<int>(excluded.size()), child, config, flags);
}

// By rank: the smaller communicator works and has closed the gaps.
void expect_rest(ncclComm_t child, int rank, int size, const std::vector<int>& excluded) {
  int before = 0;
  for (const int gone : excluded) before += gone < rank ? 1 : 0;
  EXPECT_EQ(size_of(child), size - static_cast<int>(excluded.size()));
  EXPECT_EQ(rank_of(child), rank - before);
  EXPECT_EQ(sum_over(child, rank), sum_without(size, excluded)) << failure();
}

class Shrink : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Shrink, testing::Range(2, 9));

TEST_P(Shrink, AWholeOneLosesARankThatDoesNotCall) {
  const int size = GetParam();
  for (const int gone : {0, size - 1}) {
    run_ranks(size, [&](int rank, ncclComm_t comm) {
      if (rank == gone) return;
      ncclComm_t child = kUntouched;
      ASSERT_EQ(shrink(comm, {gone}, &child, NCCL_SHRINK_DEFAULT), ncclSuccess) << failure();
      expect_rest(child, rank, size, {gone});
      EXPECT_EQ(ncclCommDestroy(child), ncclSuccess) << failure();
    });
  }
}

// The first rank is the one whose process keeps the control channel of all.
TEST_P(Shrink, AfterADeathTheRestGoesOn) {
  const int size = GetParam();
  for (const int gone : {0, size / 2}) {
    const std::vector<ncclComm_t> comms = make_clique(size);
    in_threads(size, [&](int rank) {
      if (rank == gone) {
        EXPECT_EQ(ncclCommAbort(comms[at(rank)]), ncclSuccess);
        return;
      }
      EXPECT_EQ(sum_over(comms[at(rank)], rank), -1) << "broken";
      ncclComm_t child = kUntouched;
      EXPECT_EQ(shrink(comms[at(rank)], {gone}, &child, NCCL_SHRINK_DEFAULT), ncclRemoteError)
          << "a broken parent is what NCCL_SHRINK_ABORT is for";
      ASSERT_EQ(shrink(comms[at(rank)], {gone}, &child, NCCL_SHRINK_ABORT), ncclSuccess) << failure();
      EXPECT_EQ(ncclCommAbort(comms[at(rank)]), ncclSuccess) << failure();
      expect_rest(child, rank, size, {gone});
      EXPECT_EQ(ncclCommDestroy(child), ncclSuccess) << failure();
    });
  }
}

TEST(Shrinks, AgainAndAgainDownToOne) {
  const int size = 4;
  std::vector<std::vector<ncclComm_t>> comms = {make_clique(size)};  // by generation, then by first rank
  for (int made = 1; made < size; ++made) comms.emplace_back(at(size), nullptr);
  in_threads(size, [&](int rank) {
    ncclComm_t comm = comms[0][at(rank)];
    int place = rank;
    for (int left = size; left > 1 && place > 0; --left) {
      ncclComm_t& child = comms[at(size - left + 1)][at(rank)];
      ASSERT_EQ(shrink(comm, {0}, &child, NCCL_SHRINK_DEFAULT), ncclSuccess) << failure();
      comm = child;
      --place;
      EXPECT_EQ(size_of(comm), left - 1);
      EXPECT_EQ(rank_of(comm), place);
    }
    if (place == 0 && rank == size - 1) {
      EXPECT_EQ(sum_over(comm, 5), 5);
    }
  });
  for (const auto& generation : comms) {
    for (ncclComm_t comm : generation) EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  }
}

TEST(Shrinks, SeveralAtOnceInAnyOrder) {
  const std::vector<int> excluded = {4, 0, 2};
  run_ranks(6, [&](int rank, ncclComm_t comm) {
    if (contains(excluded, rank)) return;
    ncclComm_t child = nullptr;
    ASSERT_EQ(shrink(comm, excluded, &child, NCCL_SHRINK_DEFAULT), ncclSuccess) << failure();
    expect_rest(child, rank, 6, excluded);
    EXPECT_EQ(ncclCommDestroy(child), ncclSuccess) << failure();
  });
}

// Rank 1 is inside a collective that nobody else will enter.
TEST(Shrinks, AbortEndsWhatIsUnderWay) {
  const std::vector<ncclComm_t> comms = make_clique(3);
  std::atomic<bool> entered{false};
  ncclResult_t result = ncclSuccess;
  std::thread blocked([&] {
    std::vector<float> data(1 << 20);
    entered = true;
    result = ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comms[1], nullptr);
  });
  while (!entered) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  in_threads(2, [&](int rank) {
    ncclComm_t child = nullptr;
    ASSERT_EQ(shrink(comms[at(rank)], {2}, &child, NCCL_SHRINK_ABORT), ncclSuccess) << failure();
    EXPECT_EQ(sum_over(child, 1), 2) << failure();
    EXPECT_EQ(ncclCommDestroy(child), ncclSuccess);
  });
  blocked.join();
  EXPECT_NE(result, ncclSuccess);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

TEST(Shrinks, ADeathDuringAnAttemptIsAReasonForALongerList) {
  const Environment deadline("STEPGATE_HOSTNCCL_TIMEOUT", "2");
  const std::vector<ncclComm_t> comms = make_clique(4);
  in_threads(4, [&](int rank) {
    ncclComm_t comm = comms[at(rank)];
    if (rank >= 2) {
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);  // 3 is known to be gone, 2 is not
      return;
    }
    ncclComm_t child = kUntouched;
    EXPECT_EQ(shrink(comm, {3}, &child, NCCL_SHRINK_ABORT), ncclRemoteError);
    EXPECT_NE(failure().find("rank 2"), std::string::npos) << failure();
    ASSERT_EQ(shrink(comm, {2, 3}, &child, NCCL_SHRINK_ABORT), ncclSuccess) << failure();
    EXPECT_EQ(sum_over(child, rank), 1) << failure();
    EXPECT_EQ(ncclCommDestroy(child), ncclSuccess);
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
}

TEST(Shrinks, WhereCallsDoNotBlock) {
  std::vector<ncclComm_t> comms = make_non_blocking_clique(3);
  std::vector<ncclComm_t> children(2, kUntouched);
  EXPECT_EQ(ncclCommAbort(comms[2]), ncclSuccess);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(shrink(comms[at(i)], {2}, &children[at(i)], NCCL_SHRINK_ABORT), ncclInProgress) << failure();
  }
  for (int i = 0; i < 2; ++i) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::atomic_ref child(children[at(i)]);
    while (child.load() == nullptr && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    ASSERT_NE(child.load(), nullptr);
    EXPECT_EQ(size_of(child.load()), 2);
  }
  end_all(children);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ncclCommAbort(comms[at(i)]), ncclSuccess);
}

class Revoke : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Revoke, testing::Range(1, 9));

TEST_P(Revoke, ClosesItToOperationsAndNothingElse) {
  const int size = GetParam();
  const std::vector<ncclComm_t> comms = make_clique(size);
  in_threads(size, [&](int rank) {
    ncclComm_t comm = comms[at(rank)];
    EXPECT_EQ(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclSuccess) << failure();
    EXPECT_EQ(async_state(comm), ncclSuccess);
    int value = 1;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr), ncclInvalidUsage);
    EXPECT_NE(failure().find("revoked"), std::string::npos) << failure();
    EXPECT_EQ(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclInvalidArgument) << "once";
    EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
    EXPECT_EQ(rank_of(comm), rank);
    EXPECT_EQ(size_of(comm), size);
    ncclComm_t all = nullptr;
    ASSERT_EQ(ncclCommSplit(comm, 0, -rank, &all, nullptr), ncclSuccess) << failure();
    EXPECT_EQ(rank_of(all), size - 1 - rank);
    EXPECT_EQ(sum_over(all, rank), size * (size - 1) / 2) << failure();
    EXPECT_EQ(ncclCommDestroy(all), ncclSuccess) << failure();
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << failure();
  });
}

// Only one rank revokes; the others hear of it and follow.
TEST(Revokes, FromOneRankTheOthersAreTold) {
  const std::vector<ncclComm_t> comms = make_clique(4);
  in_threads(4, [&](int rank) {
    ncclComm_t comm = comms[at(rank)];
    if (rank != 1) {
      EXPECT_EQ(sum_over(comm, rank), -1) << "rank 1 does not come";
      EXPECT_EQ(async_state(comm), ncclRemoteError);
      EXPECT_NE(failure().find("rank 1"), std::string::npos) << failure();
    }
    ASSERT_EQ(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclSuccess) << failure();
    EXPECT_EQ(async_state(comm), ncclSuccess);
    ncclComm_t child = nullptr;
    if (rank != 3) {
      ASSERT_EQ(shrink(comm, {3}, &child, NCCL_SHRINK_DEFAULT), ncclSuccess) << failure();
      expect_rest(child, rank, 4, {3});
      EXPECT_EQ(ncclCommDestroy(child), ncclSuccess) << failure();
    }
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << failure();
  });
}

TEST(Revokes, EndACallOfAnotherThread) {
  const std::vector<ncclComm_t> comms = make_clique(2);
  std::atomic<bool> entered{false};
  ncclResult_t result = ncclSuccess;
  std::thread blocked([&] {
    std::vector<float> data(1 << 20);
    entered = true;
    result = ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comms[0], nullptr);
  });
  while (!entered) std::this_thread::yield();
  EXPECT_EQ(ncclCommRevoke(comms[0], 0), ncclSuccess) << failure();
  blocked.join();
  EXPECT_TRUE(result == ncclInternalError || result == ncclInvalidUsage) << result;
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

TEST(Revokes, WhereCallsDoNotBlock) {
  std::vector<ncclComm_t> comms = make_non_blocking_clique(2);
  int value = 1;
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comms[0], nullptr), ncclInProgress);
  for (ncclComm_t comm : comms) {
    const ncclResult_t revoked = ncclCommRevoke(comm, 0);
    EXPECT_TRUE(revoked == ncclInProgress || revoked == ncclSuccess) << failure();
    EXPECT_EQ(settled(comm), ncclSuccess) << failure();
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr), ncclInvalidUsage);
  }
  end_all(comms);
}

TEST(Revokes, NotAfterTheEnd) {
  run_ranks(2, [](int, ncclComm_t comm) {
    EXPECT_EQ(ncclCommRevoke(comm, 1), ncclInvalidArgument);
    EXPECT_NE(failure().find("revokeFlags 1"), std::string::npos) << failure();
    EXPECT_EQ(ncclCommFinalize(comm), ncclSuccess) << failure();
    EXPECT_EQ(ncclCommRevoke(comm, 0), ncclInvalidArgument);
  });
}

}  // namespace
}  // namespace stepgate::hostnccl::test

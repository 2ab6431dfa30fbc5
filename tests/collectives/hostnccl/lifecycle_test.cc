// How communicators come about and end: several at once, in groups, in one thread, over several ids.
#include "tests/collectives/hostnccl/lifecycle.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace stepgate::hostnccl::test {
namespace {

void destroy_in_one_thread(const std::vector<ncclComm_t>& comms) {
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << failure();
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
}

class InitAll : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, InitAll, testing::Range(1, 9));

TEST_P(InitAll, MakesAllRanksInOneThread) {
  const int size = GetParam();
  std::vector<ncclComm_t> comms(at(size), nullptr);
  ASSERT_EQ(ncclCommInitAll(comms.data(), size, nullptr), ncclSuccess) << failure();
  std::vector<int> values(at(size));
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int i = 0; i < size; ++i) {
    EXPECT_EQ(rank_of(comms[at(i)]), i);
    EXPECT_EQ(size_of(comms[at(i)]), size);
    values[at(i)] = i;
    ASSERT_EQ(ncclAllReduce(&values[at(i)], &values[at(i)], 1, ncclInt32, ncclSum, comms[at(i)], nullptr),
              ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
  for (const int value : values) EXPECT_EQ(value, size * (size - 1) / 2);
  destroy_in_one_thread(comms);
}

TEST(InitAlls, DeviceListsNameTheHostsMemoryOnce) {
  ncclComm_t comms[2] = {kUntouched, kUntouched};
  const int one[] = {0};
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(ncclCommInitAll(comms, 1, one), ncclSuccess) << failure();
    EXPECT_EQ(ncclCommDestroy(comms[0]), ncclSuccess);
  }
  const int twice[] = {0, 0};
  EXPECT_EQ(ncclCommInitAll(comms, 2, twice), ncclInvalidUsage);
  EXPECT_NE(failure().find("twice"), std::string::npos) << failure();
  const int other[] = {0, 1};
  EXPECT_EQ(ncclCommInitAll(comms, 2, other), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitAll(comms, -1, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitAll(nullptr, 1, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitAll(comms, 0, nullptr), ncclSuccess);
}

TEST(Scalable, UpToAnIdForEachRank) {
  for (const int ids : {1, 2, 4}) {
    std::vector<ncclUniqueId> id(at(ids));
    for (ncclUniqueId& each : id) each = new_id();
    std::vector<ncclComm_t> comms(4, nullptr);
    in_threads(4, [&](int rank) {
      ASSERT_EQ(ncclCommInitRankScalable(&comms[at(rank)], 4, rank, ids, id.data(), nullptr), ncclSuccess)
          << failure();
      EXPECT_EQ(sum_over(comms[at(rank)], rank), 6) << failure();
    });
    end_all(comms);
  }
}

TEST(Scalable, NumbersOfIdsThatNcclRefuses) {
  const ncclUniqueId id = new_id();
  std::vector<ncclUniqueId> ids(3, id);
  for (const int count : {0, -1, 3}) {
    ncclComm_t comm = kUntouched;
    EXPECT_EQ(ncclCommInitRankScalable(&comm, 2, 0, count, ids.data(), nullptr), ncclInvalidArgument)
        << count;
    EXPECT_NE(failure().find("nId"), std::string::npos) << failure();
  }
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankScalable(&comm, 1, 0, 1, nullptr, nullptr), ncclInvalidArgument);
  ncclConfig_t config = non_blocking();
  EXPECT_EQ(ncclCommInitRankScalable(&comm, 1, 0, 1, ids.data(), &config), ncclInProgress) << failure();
  EXPECT_EQ(settled(comm), ncclSuccess) << failure();
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST(GroupedLives, OneThreadMakesUsesAndEndsAllRanks) {
  constexpr int kSize = 3;
  const ncclUniqueId id = new_id();
  std::vector<ncclComm_t> comms(kSize, nullptr);
  int values[kSize] = {1, 2, 3};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int i = 0; i < kSize; ++i) {
    ASSERT_EQ(ncclCommInitRank(&comms[at(i)], kSize, id, i), ncclSuccess) << failure();
    EXPECT_NE(comms[at(i)], nullptr) << "the handle is there at once";
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int i = 0; i < kSize; ++i) {
    ASSERT_EQ(ncclAllReduce(&values[i], &values[i], 1, ncclInt32, ncclSum, comms[at(i)], nullptr),
              ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
  for (const int value : values) EXPECT_EQ(value, 6);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommFinalize(comm), ncclSuccess) << failure();
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
  destroy_in_one_thread(comms);
}

TEST(GroupedLives, WithoutBlockingTheGroupIsInProgress) {
  const ncclUniqueId id = new_id();
  std::vector<ncclComm_t> comms(2, nullptr);
  ncclConfig_t config = non_blocking();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(ncclCommInitRankConfig(&comms[at(i)], 2, id, i, &config), ncclSuccess) << failure();
    int value = 1;
    EXPECT_EQ(ncclCommCount(comms[at(i)], &value), ncclInvalidArgument) << "not before the end";
  }
  ASSERT_EQ(ncclGroupEnd(), ncclInProgress) << failure();
  for (ncclComm_t comm : comms) EXPECT_EQ(settled(comm), ncclSuccess) << failure();
  destroy_in_one_thread(comms);
}

TEST(GroupedLives, BlockingAndOtherCommunicatorsDoNotMeet) {
  ncclComm_t blocking = nullptr;
  ncclComm_t other = nullptr;
  ncclConfig_t config = non_blocking();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclCommInitRank(&blocking, 1, new_id(), 0), ncclSuccess) << failure();
  EXPECT_EQ(ncclCommInitRankConfig(&other, 1, new_id(), 0, &config), ncclInvalidArgument);
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_NE(failure().find("same group"), std::string::npos) << failure();
  EXPECT_EQ(blocking, nullptr) << "the group came to nothing";
}

// An end blocks whatever its communicator; a collective beside it blocks or not as its own does. In either
// order.
TEST(GroupedLives, AnEndMeetsACollectiveThatDoesNotBlock) {
  for (const bool end_first : {true, false}) {
    ncclComm_t ending = make_non_blocking_clique(1)[0], working = make_non_blocking_clique(1)[0];
    int from = 7, to = 0;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    if (end_first) {
      EXPECT_EQ(ncclCommDestroy(ending), ncclSuccess) << failure();
    }
    EXPECT_EQ(ncclAllReduce(&from, &to, 1, ncclInt32, ncclSum, working, nullptr), ncclSuccess) << failure();
    if (!end_first) {
      EXPECT_EQ(ncclCommDestroy(ending), ncclSuccess) << failure();
    }
    EXPECT_EQ(ncclGroupEnd(), ncclInProgress) << failure();
    int count = 0;
    EXPECT_EQ(ncclCommCount(ending, &count), ncclInvalidArgument) << "it has ended by then";
    EXPECT_EQ(settled(working), ncclSuccess) << failure();
    EXPECT_EQ(to, 7);
    EXPECT_EQ(ncclCommDestroy(working), ncclSuccess) << failure();
  }
}

TEST(GroupedLives, AGroupThatFailsLeavesNothingBehind) {
  const ncclUniqueId id = new_id();
  ncclComm_t comm = nullptr;
  ncclComm_t bad = kUntouched;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSuccess) << failure();
  const ncclComm_t handle = comm;
  EXPECT_EQ(ncclCommInitRank(&bad, 2, id, 2), ncclInvalidArgument);
  EXPECT_EQ(bad, nullptr);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_NE(failure().find("rank 2"), std::string::npos) << failure();
  EXPECT_EQ(comm, nullptr);
  int count = 0;
  EXPECT_EQ(ncclCommCount(handle, &count), ncclInvalidArgument) << "the handle is dead";
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << "the depth is 0 again";
}

// NCCL's tasks run in a simulated group too; its collectives do not.
TEST(GroupedLives, SimulationMakesCommunicatorsAndMovesNothing) {
  const ncclUniqueId id = new_id();
  std::vector<ncclComm_t> comms(2, nullptr);
  ncclComm_t ready = nullptr;
  ASSERT_EQ(ncclCommInitRank(&ready, 1, new_id(), 0), ncclSuccess);
  int from = 1;
  int to = 0;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(ncclCommInitRank(&comms[at(i)], 2, id, i), ncclSuccess);
  ASSERT_EQ(ncclAllReduce(&from, &to, 1, ncclInt32, ncclSum, ready, nullptr), ncclSuccess);
  ASSERT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess) << failure();
  EXPECT_EQ(to, 0);
  EXPECT_EQ(size_of(comms[0]), 2);
  destroy_in_one_thread(comms);
  EXPECT_EQ(ncclCommDestroy(ready), ncclSuccess);
}

TEST(GroupedLives, ASimulationThatIsRefusedMakesNothing) {
  ncclComm_t comm = nullptr;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  info.magic = 0;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclCommInitRank(&comm, 1, new_id(), 0), ncclSuccess);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess) << "only the outermost end looks at it";
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidArgument);
  EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

TEST(GroupedLives, AConnectionThatFailsTakesTheHandleBack) {
  const Environment deadline("STEPGATE_HOSTNCCL_TIMEOUT", "0.3");
  ncclComm_t comm = nullptr;
  ncclComm_t alone = nullptr;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclCommInitRank(&comm, 2, new_id(), 0), ncclSuccess);
  ASSERT_EQ(ncclCommInitRank(&alone, 1, new_id(), 0), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclRemoteError);
  EXPECT_NE(failure().find("rank 1"), std::string::npos) << failure();
  EXPECT_EQ(comm, nullptr);
  ASSERT_NE(alone, nullptr) << "that one came about";
  EXPECT_EQ(ncclCommDestroy(alone), ncclSuccess);
}

TEST(GroupedLives, AbortInAGroupEndsAtOnce) {
  const std::vector<ncclComm_t> comms = make_clique(2);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(comms[0]), ncclSuccess);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (async_state(comms[1]) == ncclSuccess && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(async_state(comms[1]), ncclRemoteError) << "told before the group's end";
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
  EXPECT_EQ(ncclCommAbort(comms[1]), ncclSuccess);
}

TEST(Finalize, OnceAndNotWhileInProgress) {
  run_ranks(2, [](int, ncclComm_t comm) {
    EXPECT_EQ(ncclCommFinalize(comm), ncclSuccess) << failure();
    EXPECT_EQ(async_state(comm), ncclSuccess);
    EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
    EXPECT_NE(failure().find("finalized already"), std::string::npos) << failure();
  });
}

TEST(Abort, WhileItConnectsDoesNotWaitForTheDeadline) {
  ncclConfig_t config = non_blocking();
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, new_id(), 0, &config), ncclInProgress);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess) << failure();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(50)) << "the deadline is at 100";
}

TEST(Memory, IsAlignedAndWritableAndFreedOnce) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{10'000'000}}) {
    void* memory = nullptr;
    ASSERT_EQ(ncclMemAlloc(&memory, bytes), ncclSuccess) << failure();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 4096, 0u);
    std::fill_n(static_cast<unsigned char*>(memory), bytes, static_cast<unsigned char>(7));
    EXPECT_EQ(ncclMemFree(memory), ncclSuccess) << failure();
    EXPECT_EQ(ncclMemFree(memory), ncclUnhandledCudaError) << "as cudaFree says it";
  }
  void* memory = &memory;
  EXPECT_EQ(ncclMemAlloc(&memory, 0), ncclSuccess);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(ncclMemAlloc(&memory, SIZE_MAX), ncclSystemError);
  EXPECT_EQ(memory, nullptr);
}

TEST(Register, CountsAndRefusesWhatItDoesNotKnow) {
  run_ranks(2, [](int rank, ncclComm_t comm) {
    std::vector<float> data(100'000, 1.0F);
    void* whole = nullptr;
    void* part = nullptr;
    ASSERT_EQ(ncclCommRegister(comm, data.data(), data.size() * sizeof(float), &whole), ncclSuccess);
    ASSERT_EQ(ncclCommRegister(comm, data.data() + 50'000, 4, &part), ncclSuccess);
    EXPECT_EQ(whole, part) << "within the pages of the first";
    EXPECT_EQ(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr),
              ncclSuccess);
    EXPECT_EQ(data[99'999], 2.0F);
    EXPECT_EQ(ncclCommDeregister(comm, whole), ncclSuccess) << failure();
    EXPECT_EQ(ncclCommDeregister(comm, part), ncclSuccess) << failure();
    EXPECT_EQ(ncclCommDeregister(comm, part), ncclInvalidUsage);
    EXPECT_EQ(ncclCommDeregister(comm, &rank), ncclInvalidUsage);
    EXPECT_EQ(ncclCommDeregister(comm, nullptr), ncclSuccess);
    ncclWindow_t window = nullptr;
    ASSERT_EQ(ncclCommWindowRegister(comm, data.data(), 4096, &window, 0), ncclSuccess) << failure();
    EXPECT_NE(window, nullptr);
    EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclSuccess) << failure();
    EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclInvalidUsage);
  });
}

}  // namespace
}  // namespace stepgate::hostnccl::test

// The ABI edge of the built library: codes, strings, handles, life and death of communicators.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>

#include "tests/collectives/hostnccl/ranks.h"

namespace stepgate::hostnccl::test {
namespace {

TEST(Abi, Version) {
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, 22809);
  EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
}

TEST(Abi, EveryResultHasItsOwnSentence) {
  std::set<std::string> sentences;
  for (int code = 0; code < ncclNumResults; ++code) {
    sentences.insert(ncclGetErrorString(static_cast<ncclResult_t>(code)));
  }
  EXPECT_EQ(sentences.size(), std::size_t{ncclNumResults});
  EXPECT_STREQ(ncclGetErrorString(ncclSuccess), "no error");
  EXPECT_STREQ(ncclGetErrorString(ncclNumResults), "unknown result code");
}

TEST(Abi, LastErrorBelongsToTheThread) {
  EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
  EXPECT_STREQ(ncclGetLastError(nullptr), "version is NULL");
  std::thread([] { EXPECT_STREQ(ncclGetLastError(nullptr), ""); }).join();
}

TEST(Abi, TwinsAreTheSameFunctions) {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr) << dlerror();
  for (const char* name : {"ncclAllReduce", "ncclCommInitRank", "ncclGroupEnd", "ncclGetLastError"}) {
    void* plain = dlsym(library, name);
    EXPECT_NE(plain, nullptr) << name;
    EXPECT_EQ(plain, dlsym(library, (std::string("p") + name).c_str())) << name;
  }
  dlclose(library);
}

// Calls that need a live communicator, handed a dead one.
struct CommCall {
  const char* name;
  ncclResult_t (*call)(ncclComm_t);
};

int any_int;
ncclResult_t any_state;
float any_floats[8];

constexpr CommCall kCommCalls[] = {
    {"CommCount", [](ncclComm_t c) { return ncclCommCount(c, &any_int); }},
    {"CommUserRank", [](ncclComm_t c) { return ncclCommUserRank(c, &any_int); }},
    {"CommCuDevice", [](ncclComm_t c) { return ncclCommCuDevice(c, &any_int); }},
    {"CommGetAsyncError", [](ncclComm_t c) { return ncclCommGetAsyncError(c, &any_state); }},
    {"AllReduce",
     [](ncclComm_t c) { return ncclAllReduce(any_floats, any_floats, 1, ncclFloat32, ncclSum, c, nullptr); }},
    {"ReduceScatter",
     [](ncclComm_t c) {
       return ncclReduceScatter(any_floats, any_floats, 1, ncclFloat32, ncclSum, c, nullptr);
     }},
    {"AllGather",
     [](ncclComm_t c) { return ncclAllGather(any_floats, any_floats, 1, ncclFloat32, c, nullptr); }},
    {"Broadcast",
     [](ncclComm_t c) { return ncclBroadcast(any_floats, any_floats, 1, ncclFloat32, 0, c, nullptr); }},
    {"Bcast", [](ncclComm_t c) { return ncclBcast(any_floats, 1, ncclFloat32, 0, c, nullptr); }},
    {"Reduce",
     [](ncclComm_t c) { return ncclReduce(any_floats, any_floats, 1, ncclFloat32, ncclSum, 0, c, nullptr); }},
};

// To NCCL a communicator that is NULL has ended already.
constexpr CommCall kEndingCalls[] = {
    {"CommFinalize", [](ncclComm_t c) { return ncclCommFinalize(c); }},
    {"CommDestroy", [](ncclComm_t c) { return ncclCommDestroy(c); }},
    {"CommAbort", [](ncclComm_t c) { return ncclCommAbort(c); }},
    {"CommRevoke", [](ncclComm_t c) { return ncclCommRevoke(c, NCCL_REVOKE_DEFAULT); }},
};

ncclComm_t make_single() {
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 1, new_id(), 0), ncclSuccess) << failure();
  return comm;
}

TEST(Abi, DeadHandlesAreInvalidArgumentsEverywhere) {
  const ncclComm_t destroyed = make_single();
  ASSERT_EQ(ncclCommDestroy(destroyed), ncclSuccess);
  const ncclComm_t aborted = make_single();
  ASSERT_EQ(ncclCommAbort(aborted), ncclSuccess);
  const auto foreign = reinterpret_cast<ncclComm_t>(&any_int);
  for (const CommCall& row : kCommCalls) {
    for (const ncclComm_t comm : {ncclComm_t{nullptr}, destroyed, aborted, foreign}) {
      EXPECT_EQ(row.call(comm), ncclInvalidArgument) << row.name;
      EXPECT_NE(failure(), "") << row.name;
    }
  }
  for (const CommCall& row : kEndingCalls) {
    for (const ncclComm_t comm : {destroyed, aborted, foreign}) {
      EXPECT_EQ(row.call(comm), ncclInvalidArgument) << row.name;
    }
    EXPECT_EQ(row.call(nullptr), ncclSuccess) << row.name;
  }
}

TEST(Abi, NullResultsAreInvalidArguments) {
  const ncclComm_t comm = make_single();
  EXPECT_EQ(ncclCommCount(comm, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommUserRank(comm, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommCuDevice(comm, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommGetAsyncError(comm, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclGetUniqueId(nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(nullptr, 1, ncclUniqueId{}, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST(Abi, CommunicatorsKnowTheirPlace) {
  run_ranks(3, [](int rank, ncclComm_t comm) {
    int count = -1;
    int user_rank = -1;
    int device = -1;
    ncclResult_t async = ncclInternalError;
    EXPECT_EQ(ncclCommCount(comm, &count), ncclSuccess);
    EXPECT_EQ(ncclCommUserRank(comm, &user_rank), ncclSuccess);
    EXPECT_EQ(ncclCommCuDevice(comm, &device), ncclSuccess);
    EXPECT_EQ(ncclCommGetAsyncError(comm, &async), ncclSuccess);
    EXPECT_EQ(count, 3);
    EXPECT_EQ(user_rank, rank);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(async, ncclSuccess);
  });
}

struct BadRank {
  int size;
  int rank;
};

TEST(Abi, InitRankRefusesBadRanksWithoutWaiting) {
  const ncclUniqueId id = new_id();
  for (const BadRank row : {BadRank{0, 0}, {-1, 0}, {2, 2}, {2, -1}, {1, 1}, {1 << 21, 0}}) {
    ncclComm_t comm = reinterpret_cast<ncclComm_t>(&any_int);
    EXPECT_EQ(ncclCommInitRank(&comm, row.size, id, row.rank), ncclInvalidArgument)
        << row.size << ' ' << row.rank;
    EXPECT_EQ(comm, nullptr);
    EXPECT_NE(failure().find("allowed"), std::string::npos) << failure();
  }
}

TEST(Abi, UniqueIdServesOneCommunicator) {
  const ncclUniqueId id = new_id();
  std::vector<ncclComm_t> comms(2, nullptr);
  in_threads(2, [&](int rank) {
    EXPECT_EQ(ncclCommInitRank(&comms[static_cast<std::size_t>(rank)], 2, id, rank), ncclSuccess)
        << failure();
  });
  in_threads(2, [&](int rank) {
    ncclComm_t again = nullptr;
    EXPECT_EQ(ncclCommInitRank(&again, 2, id, rank), ncclInvalidUsage);
    EXPECT_NE(failure().find("unique id"), std::string::npos) << failure();
    EXPECT_EQ(ncclCommDestroy(comms[static_cast<std::size_t>(rank)]), ncclSuccess);
  });
}

TEST(Abi, FinalizedCommunicatorsTakeNoMoreWork) {
  run_ranks(2, [](int, ncclComm_t comm) {
    EXPECT_EQ(ncclCommFinalize(comm), ncclSuccess) << failure();
    EXPECT_EQ(ncclAllReduce(any_floats, any_floats, 1, ncclFloat32, ncclSum, comm, nullptr),
              ncclInvalidUsage);
    EXPECT_NE(failure().find("finalized"), std::string::npos) << failure();
  });
}

TEST(Abi, AbortFromAnotherThreadEndsABlockedCall) {
  const std::vector<ncclComm_t> comms = make_clique(2);
  std::vector<float> data(1 << 20, 1.0F);
  std::atomic<bool> entered{false};
  ncclResult_t result = ncclSuccess;
  std::string why;
  std::thread blocked([&] {
    entered = true;
    result = ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comms[0], nullptr);
    why = failure();
  });
  while (!entered) std::this_thread::yield();
  // Whether the call is inside already or comes too late, it must not succeed and must not hang.
  EXPECT_EQ(ncclCommAbort(comms[0]), ncclSuccess) << failure();
  blocked.join();
  EXPECT_TRUE(result == ncclInternalError || result == ncclInvalidArgument) << result << ' ' << why;
  const ncclResult_t peer =
      ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comms[1], nullptr);
  EXPECT_EQ(peer, ncclRemoteError) << failure();
  EXPECT_NE(failure().find("rank 0"), std::string::npos) << failure();
  EXPECT_EQ(ncclCommDestroy(comms[1]), ncclSuccess) << failure();
}

}  // namespace
}  // namespace stepgate::hostnccl::test

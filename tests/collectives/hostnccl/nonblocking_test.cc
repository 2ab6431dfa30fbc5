// Communicators whose calls do not block: ncclInProgress, and ncclCommGetAsyncError until it is over.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "collectives/nccl_abi/nccl_structs.h"
#include "tests/collectives/hostnccl/device_ranks.h"

namespace stepgate::hostnccl::test {
namespace {

// What the last call came to.
ncclResult_t settle(ncclComm_t comm) {
  EXPECT_TRUE(eventually([&] { return state_of(comm) != ncclInProgress; }));
  return state_of(comm);
}

bool accepted(ncclResult_t result) {
  return result == ncclInProgress || result == ncclSuccess;
}

// For the communicators that are made meanwhile.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) {
    if (const char* before = getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~Setting() {
    if (before_.has_value()) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// Before the helper's launch.
constexpr const char* kLaunchDelay = "STEPGATE_HOSTNCCL_LAUNCH_DELAY_US";

ncclComm_t join(int rank, int size, const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, size, id, rank, &config), ncclInProgress) << failure();
  EXPECT_NE(comm, nullptr) << "there at once";
  return comm;
}

TEST(NonBlocking, OneThreadMakesAllRanks) {
  const ncclUniqueId id = new_id();
  ncclComm_t first = join(0, 2, id);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(state_of(first), ncclInProgress) << "the other rank is not there";
  float value = 1;
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, first, nullptr), ncclInvalidArgument);
  EXPECT_NE(failure().find("before the previous operation"), std::string::npos) << failure();
  ncclComm_t second = join(1, 2, id);
  EXPECT_EQ(settle(first), ncclSuccess) << failure();
  EXPECT_EQ(settle(second), ncclSuccess) << failure();
  float other = 2;
  EXPECT_TRUE(accepted(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, first, nullptr)));
  EXPECT_TRUE(accepted(ncclAllReduce(&other, &other, 1, ncclFloat32, ncclSum, second, nullptr)));
  EXPECT_EQ(settle(first), ncclSuccess) << failure();
  EXPECT_EQ(settle(second), ncclSuccess) << failure();
  EXPECT_EQ(value, 3);
  EXPECT_EQ(other, 3);
  EXPECT_TRUE(accepted(ncclCommFinalize(first)));
  EXPECT_TRUE(accepted(ncclCommFinalize(second)));
  EXPECT_EQ(settle(first), ncclSuccess) << failure();
  EXPECT_EQ(settle(second), ncclSuccess) << failure();
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, first, nullptr), ncclInvalidUsage);
  in_threads(2, [&](int rank) {  // each waits until the other has come here
    EXPECT_EQ(ncclCommDestroy(rank == 0 ? first : second), ncclSuccess);
  });
}

// What is enqueued between the call and its success comes before the collective: the race that a tool between
// the program and NCCL must wait out.
TEST(NonBlocking, TheHelperEnqueuesLater) {
  const Setting delay(kLaunchDelay, "1000000");
  StandIn standin(devices());
  const ncclUniqueId id = new_id();
  in_threads(2, [&](int index) {
    Rank r(standin, index, 2, index);
    r.comm = join(index, 2, id);
    ASSERT_EQ(settle(r.comm), ncclSuccess) << failure();
    {
      DeviceMemory data(r.driver(), kBytes);
      DeviceMemory early(r.driver(), kBytes);
      DeviceMemory late(r.driver(), kBytes);
      r.set(data, kCount, 1);
      const auto start = std::chrono::steady_clock::now();
      ASSERT_EQ(ncclAllReduce(data.at(), data.at(), kCount, ncclFloat32, ncclSum, r.comm, r.stream()),
                ncclInProgress);
      data.copy_to(r.stream(), early);
      EXPECT_EQ(state_of(r.comm), ncclInProgress);
      ASSERT_EQ(settle(r.comm), ncclSuccess) << failure();
      EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
      data.copy_to(r.stream(), late);
      EXPECT_TRUE(all_are(early.values<float>(r.stream(), kCount), 1));
      EXPECT_TRUE(all_are(late.values<float>(r.stream(), kCount), 2));
    }
    EXPECT_EQ(ncclCommDestroy(r.comm), ncclSuccess) << failure();
  });
}

TEST(NonBlocking, GroupsAreInProgressAsAWhole) {
  const Setting delay(kLaunchDelay, "500000");
  StandIn standin(delayed(50));
  const ncclUniqueId id = new_id();
  const ncclUniqueId other_id = new_id();
  in_threads(3, [&](int index) {
    Rank r(standin, index, 3, index);
    r.comm = join(index, 3, id);
    ncclComm_t other = join(index, 3, other_id);
    ASSERT_EQ(settle(r.comm), ncclSuccess) << failure();
    ASSERT_EQ(settle(other), ncclSuccess) << failure();
    {
      DeviceMemory a(r.driver(), kBytes);
      DeviceMemory b(r.driver(), kBytes);
      r.set(a, kCount, 1);
      r.set(b, kCount, 2);
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      ASSERT_EQ(ncclAllReduce(a.at(), a.at(), kCount, ncclFloat32, ncclSum, r.comm, r.stream()), ncclSuccess);
      ASSERT_EQ(ncclAllReduce(b.at(), b.at(), kCount, ncclFloat32, ncclMax, other, r.stream()), ncclSuccess);
      ASSERT_EQ(ncclGroupEnd(), ncclInProgress);
      EXPECT_EQ(state_of(r.comm), ncclInProgress);
      EXPECT_EQ(state_of(other), ncclInProgress);
      EXPECT_EQ(settle(other), ncclSuccess) << failure();
      EXPECT_EQ(settle(r.comm), ncclSuccess) << failure();
      EXPECT_TRUE(all_are(a.values<float>(r.stream(), kCount), 3));
      EXPECT_TRUE(all_are(b.values<float>(r.stream(), kCount), 2));
    }
    EXPECT_EQ(ncclCommDestroy(r.comm), ncclSuccess) << failure();
    EXPECT_EQ(ncclCommDestroy(other), ncclSuccess) << failure();
  });
}

TEST(NonBlocking, NotMixedWithBlockingOnesInAGroup) {
  const ncclUniqueId id = new_id();
  ncclComm_t quick = join(0, 1, id);
  ASSERT_EQ(settle(quick), ncclSuccess);
  ncclComm_t blocking = nullptr;
  ASSERT_EQ(ncclCommInitRank(&blocking, 1, new_id(), 0), ncclSuccess);
  float value = 1;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, quick, nullptr), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, blocking, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_NE(failure().find("same group"), std::string::npos) << failure();
  EXPECT_EQ(ncclCommDestroy(quick), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(blocking), ncclSuccess);
}

// The call cannot say it: the communicator does.
TEST(NonBlocking, FailureOfTheHelperBreaksTheCommunicator) {
  StandIn standin(devices());
  const ncclUniqueId id = new_id();
  std::vector<ncclComm_t> comms(2);
  for (int i = 0; i < 2; ++i) comms[static_cast<std::size_t>(i)] = join(i, 2, id);
  for (ncclComm_t comm : comms) ASSERT_EQ(settle(comm), ncclSuccess);
  Rank r(standin, 0, 2, 0);
  {
    DeviceMemory data(r.driver(), kBytes);
    r.set(data, kCount, 1);
    r.synchronize();
    standin.control().fail("cuMemHostAlloc", 0, 2, 1);
    EXPECT_TRUE(
        accepted(ncclAllReduce(data.at(), data.at(), kCount, ncclFloat32, ncclSum, comms[0], r.stream())));
    EXPECT_EQ(settle(comms[0]), ncclUnhandledCudaError);
    EXPECT_NE(failure().find("cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)"), std::string::npos) << failure();
    EXPECT_EQ(ncclAllReduce(data.at(), data.at(), kCount, ncclFloat32, ncclSum, comms[0], r.stream()),
              ncclUnhandledCudaError);
    EXPECT_TRUE(eventually([&] { return says_gone(state_of(comms[1])); })) << "the peer is told";
  }
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

TEST(NonBlocking, AbortEndsAHelperThatWaits) {
  const ncclUniqueId id = new_id();
  std::vector<ncclComm_t> comms(2);
  for (int i = 0; i < 2; ++i) comms[static_cast<std::size_t>(i)] = join(i, 2, id);
  for (ncclComm_t comm : comms) ASSERT_EQ(settle(comm), ncclSuccess);
  std::vector<float> data(kCount, 1);
  EXPECT_TRUE(
      accepted(ncclAllReduce(data.data(), data.data(), kCount, ncclFloat32, ncclSum, comms[0], nullptr)));
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(ncclCommAbort(comms[0]), ncclSuccess);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(ncclCommAbort(comms[1]), ncclSuccess);
}

TEST(NonBlocking, DestroyWaitsForTheHelper) {
  const Setting delay(kLaunchDelay, "50000");
  const ncclUniqueId id = new_id();
  in_threads(2, [&](int index) {
    ncclComm_t comm = join(index, 2, id);
    ASSERT_EQ(settle(comm), ncclSuccess) << failure();
    std::vector<float> data(kCount, 1);
    EXPECT_TRUE(
        accepted(ncclAllReduce(data.data(), data.data(), kCount, ncclFloat32, ncclSum, comm, nullptr)));
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << failure();
    EXPECT_TRUE(all_are(data, 2));
  });
}

TEST(NonBlocking, RankThatNeverComesIsReportedByTheHandle) {
  const Setting timeout("STEPGATE_HOSTNCCL_TIMEOUT", "0.5");
  ncclComm_t comm = join(0, 2, new_id());
  EXPECT_EQ(settle(comm), ncclRemoteError);
  EXPECT_NE(failure().find("rank 1"), std::string::npos) << failure();
  float value = 1;
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr), ncclRemoteError);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST(NonBlocking, AbortWhileItConnectsEndsAtTheDeadline) {
  const Setting timeout("STEPGATE_HOSTNCCL_TIMEOUT", "0.5");
  ncclComm_t comm = join(0, 2, new_id());
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

// Whoever connects to it finds out.
TEST(NonBlocking, AbortWhileItConnectsReachesThePeer) {
  const ncclUniqueId id = new_id();
  ncclComm_t first = join(0, 2, id);
  std::thread aborter([&] { EXPECT_EQ(ncclCommAbort(first), ncclSuccess); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ncclComm_t second = join(1, 2, id);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually([&] { return says_gone(state_of(second)); }));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  aborter.join();
  EXPECT_EQ(ncclCommAbort(second), ncclSuccess);
}

TEST(NonBlocking, ConfigThatIsRefusedLeavesNoCommunicator) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 2;
  ncclComm_t comm = reinterpret_cast<ncclComm_t>(&config);
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, new_id(), 0, &config), ncclInvalidArgument);
  EXPECT_EQ(comm, nullptr);
  EXPECT_NE(failure().find("config.blocking 2 is not allowed: 0 to 1"), std::string::npos) << failure();
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, new_id(), 0, nullptr), ncclSuccess) << "NULL: the defaults";
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

}  // namespace
}  // namespace stepgate::hostnccl::test

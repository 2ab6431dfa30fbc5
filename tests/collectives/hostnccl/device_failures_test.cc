// What goes wrong after the call has returned: the communicator says so, the stream goes on, nothing is left.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>

#include "tests/collectives/hostnccl/device_ranks.h"

namespace stepgate::hostnccl::test {
namespace {

bool all_are_nan(const std::vector<float>& values) {
  return !values.empty() && std::all_of(values.begin(), values.end(), [](float v) { return std::isnan(v); });
}

TEST(DeviceFailure, AbortFromAnotherThreadEndsAHostFunctionThatWaits) {
  StandIn standin(devices());
  run_device_ranks(standin, 2, [&](Rank& r) {
    DeviceMemory data(r.driver(), kBytes);
    r.set(data, kCount, 1);
    ncclComm_t comm = std::exchange(r.comm, nullptr);
    if (r.index == 1) {  // never takes part
      EXPECT_TRUE(eventually([&] { return says_gone(state_of(comm)); })) << "told of the abort";
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
      return;
    }
    for (int i = 0; i < 3; ++i) ASSERT_EQ(sum(data, comm, r.stream()), ncclSuccess) << failure();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const auto start = std::chrono::steady_clock::now();
    std::thread([&] { EXPECT_EQ(ncclCommAbort(comm), ncclSuccess); }).join();
    EXPECT_TRUE(all_are_nan(data.values<float>(r.stream(), kCount))) << "nobody takes it for a result";
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    EXPECT_EQ(sum(data, comm, r.stream()), ncclInvalidArgument);
  });
}

TEST(DeviceFailure, AbortOfAPeerBreaksTheCommunicatorAndTheStreamGoesOn) {
  StandIn standin(delayed(100));
  std::barrier enqueued(3);
  run_device_ranks(standin, 3, [&](Rank& r) {
    DeviceMemory data(r.driver(), kBytes);
    DeviceMemory apart(r.driver(), kBytes);
    r.set(data, kCount, 1);
    EXPECT_EQ(sum(data, r.comm, r.stream()), ncclSuccess) << failure();  // all have met
    r.synchronize();
    enqueued.arrive_and_wait();
    r.set(data, kCount, 1);
    r.set(apart, kCount, 2);
    ncclComm_t comm = std::exchange(r.comm, nullptr);
    if (r.index == 2) {
      enqueued.arrive_and_wait();
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
      return;
    }
    EXPECT_EQ(ncclAllReduce(data.at(), apart.at(), kCount, ncclFloat32, ncclSum, comm, r.stream()),
              ncclSuccess)
        << failure();
    EXPECT_EQ(sum(data, comm, r.stream()), ncclSuccess) << failure();
    enqueued.arrive_and_wait();
    EXPECT_TRUE(all_are_nan(apart.values<float>(r.stream(), kCount)));
    EXPECT_TRUE(all_are_nan(data.values<float>(r.stream(), kCount)));
    EXPECT_EQ(state_of(comm), ncclRemoteError);
    EXPECT_NE(failure().find("rank 2"), std::string::npos) << failure();
    EXPECT_EQ(sum(data, comm, r.stream()), ncclRemoteError) << "a later call";
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST(DeviceFailure, IntegersOfAFailedOperationAreAllOnes) {
  StandIn standin(devices());
  run_device_ranks(standin, 2, [&](Rank& r) {
    ncclComm_t comm = std::exchange(r.comm, nullptr);
    if (r.index == 1) {
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
      return;
    }
    DeviceMemory in(r.driver(), 8);
    DeviceMemory out(r.driver(), 16);
    in.fill(r.stream(), 0);
    out.fill(r.stream(), 0);
    const ncclResult_t called = ncclAllGather(in.at(), out.at(), 2, ncclInt32, comm, r.stream());
    ASSERT_TRUE(called == ncclSuccess || says_gone(called));
    const std::vector<int> values = out.values<int>(r.stream(), 4);
    if (called == ncclSuccess) {
      EXPECT_EQ(values, std::vector<int>(4, -1));
    }
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
}

// The work cannot run before the abort returns; what it holds is freed once it has.
TEST(DeviceFailure, AbortDoesNotWaitForAStreamThatIsHeldUp) {
  StandIn standin(devices());
  run_device_ranks(standin, 2, [&](Rank& r) {
    ncclComm_t comm = std::exchange(r.comm, nullptr);
    if (r.index == 1) {
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
      return;
    }
    DeviceMemory data(r.driver(), kBytes);
    r.set(data, kCount, 1);
    Gate gate(r.driver(), r.stream());
    const ncclResult_t called = sum(data, comm, r.stream());
    ASSERT_TRUE(called == ncclSuccess || says_gone(called));
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
    gate.open();
    r.synchronize();
    // The next communicator that is made or destroyed frees it; the stand-in's account would show it.
    const ncclUniqueId id = new_id();
    ncclComm_t other = nullptr;
    EXPECT_EQ(ncclCommInitRank(&other, 1, id, 0), ncclSuccess) << failure();
    EXPECT_EQ(ncclCommDestroy(other), ncclSuccess);
  });
}

// The peer goes while both wait for the group's end. What the communicator had is freed: the stand-in's
// account would show it.
TEST(DeviceFailure, AnEndBehindAFinalizeThatFailsIsMadeUpFor) {
  StandIn standin(devices());
  std::barrier queued(2);
  run_device_ranks(standin, 2, [&](Rank& r) {
    ncclComm_t comm = std::exchange(r.comm, nullptr);
    if (r.index == 1) {
      queued.arrive_and_wait();
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
      return;
    }
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclCommFinalize(comm), ncclSuccess) << failure();
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << failure();
    queued.arrive_and_wait();
    EXPECT_EQ(ncclGroupEnd(), ncclRemoteError) << failure();
    EXPECT_NE(failure().find("rank 1"), std::string::npos) << failure();
    EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument) << "the handle is dead";
  });
}

}  // namespace
}  // namespace stepgate::hostnccl::test

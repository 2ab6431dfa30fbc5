// Calls on device memory return at once and take their place on the caller's stream, whatever stream, context
// or order of communicators the program chooses.
#include <gtest/gtest.h>

#include <barrier>

#include "tests/collectives/hostnccl/device_ranks.h"

namespace stepgate::hostnccl::test {
namespace {

TEST(DeviceStream, CallReturnsBeforeItsStreamGetsThere) {
  StandIn standin(devices());
  run_device_ranks(standin, 2, [&](Rank& r) {
    DeviceMemory data(r.driver(), kBytes);
    r.set(data, kCount, 1);
    Gate gate(r.driver(), r.stream());
    for (int i = 0; i < 3; ++i) ASSERT_EQ(sum(data, r.comm, r.stream()), ncclSuccess) << failure();
    EXPECT_FALSE(gate.passed());
    ncclResult_t state = ncclInternalError;
    EXPECT_EQ(ncclCommGetAsyncError(r.comm, &state), ncclSuccess);
    EXPECT_EQ(state, ncclSuccess);
    gate.open();
    EXPECT_TRUE(all_are(data.values<float>(r.stream(), kCount), 8));
  });
}

TEST(DeviceStream, NoDriverCallOfACollectiveWaitsOrAllocates) {
  StandIn standin(devices());
  std::barrier meet(2);
  run_device_ranks(standin, 2, [&](Rank& r) {
    DeviceMemory data(r.driver(), kBytes);
    r.set(data, kCount, 1);
    r.synchronize();
    Gate gate(r.driver(), r.stream());
    meet.arrive_and_wait();
    if (r.index == 0) standin.control().forget_calls();
    meet.arrive_and_wait();
    EXPECT_EQ(sum(data, r.comm, r.stream()), ncclSuccess) << failure();
    meet.arrive_and_wait();
    if (r.index == 0) {
      EXPECT_EQ(standin.count("cuLaunchHostFunc"), 4u) << "two of each rank's";
      for (const standin::CallRecord& call : standin.calls()) {
        EXPECT_EQ(call.waited, 0) << call.name;
        for (const char* forbidden : {"cuMemHostAlloc", "cuMemFreeHost", "cuEventCreate", "cuEventQuery"}) {
          EXPECT_STRNE(call.name, forbidden);
        }
      }
    }
    meet.arrive_and_wait();
    gate.open();
    r.synchronize();
  });
}

TEST(DeviceStream, NullIsAValidStream) {
  StandIn standin(delayed(100));
  run_device_ranks(standin, 3, [&](Rank& r) {
    DeviceMemory data(r.driver(), kBytes);
    const std::vector<float> ones(kCount, 1);
    for (int i = 0; i < 4; ++i) {
      data.upload(nullptr, ones.data(), kBytes);
      ASSERT_EQ(sum(data, r.comm, nullptr), ncclSuccess) << failure();
      EXPECT_TRUE(all_are(data.values<float>(nullptr, kCount), 3));
    }
  });
}

// The ranks' streams run in different orders; the operations must not.
TEST(DeviceStream, OneCommunicatorOnTwoStreamsKeepsTheOrderOfTheCalls) {
  StandIn standin(delayed(100));
  run_device_ranks(standin, 2, [&](Rank& r) {
    const Stream other(r.driver());
    DeviceMemory first(r.driver(), kBytes);
    DeviceMemory second(r.driver(), kBytes);
    r.set(first, kCount, 1);
    r.set(second, kCount, 10);
    r.synchronize();
    for (int round = 0; round < 10; ++round) {
      Gate gate(r.driver(), r.index == 0 ? r.stream() : other.get());
      ASSERT_EQ(sum(first, r.comm, r.stream()), ncclSuccess) << failure();
      ASSERT_EQ(sum(second, r.comm, other.get()), ncclSuccess) << failure();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      gate.open();
      r.synchronize();
      r.synchronize(other.get());
    }
    EXPECT_TRUE(all_are(first.values<float>(r.stream(), kCount), 1024));
    EXPECT_TRUE(all_are(second.values<float>(r.stream(), kCount), 10240));
  });
}

// One rank's stream is held up: its next call must not overtake what lies there.
TEST(DeviceStream, HostMemoryWaitsForWhatLiesOnStreams) {
  StandIn standin(delayed(100));
  run_device_ranks(standin, 2, [&](Rank& r) {
    DeviceMemory data(r.driver(), kBytes);
    for (int round = 0; round < 5; ++round) {
      r.set(data, kCount, 1);
      float host = 5;
      Gate gate(r.driver(), r.stream());
      std::thread opener([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(r.index == round % 2 ? 20 : 0));
        gate.open();
      });
      EXPECT_EQ(sum(data, r.comm, r.stream()), ncclSuccess) << failure();
      // Counts differ: paired with each other, the two could not end well.
      EXPECT_EQ(ncclAllReduce(&host, &host, 1, ncclFloat32, ncclSum, r.comm, r.stream()), ncclSuccess)
          << failure();
      opener.join();
      EXPECT_EQ(host, 10);
      EXPECT_TRUE(all_are(data.values<float>(r.stream(), kCount), 2));
    }
  });
}

TEST(DeviceStream, HostAndDeviceMemoryAreNotMixed) {
  StandIn standin(devices());
  run_device_ranks(standin, 2, [&](Rank& r) {
    DeviceMemory data(r.driver(), kBytes);
    std::vector<float> host(kCount, 1);
    EXPECT_EQ(ncclAllReduce(data.at(), host.data(), kCount, ncclFloat32, ncclSum, r.comm, r.stream()),
              ncclInvalidArgument);
    EXPECT_NE(failure().find("sendbuff is device memory and recvbuff is host memory"), std::string::npos)
        << failure();
    EXPECT_EQ(ncclAllReduce(host.data(), data.at(), kCount, ncclFloat32, ncclSum, r.comm, r.stream()),
              ncclInvalidArgument);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(sum(data, r.comm, r.stream()), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(host.data(), host.data(), kCount, ncclFloat32, ncclSum, r.comm, r.stream()),
              ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_NE(failure().find("host and device memory in one group"), std::string::npos) << failure();
    // Nothing of it harmed the communicator.
    r.set(data, kCount, 1);
    ASSERT_EQ(sum(data, r.comm, r.stream()), ncclSuccess) << failure();
    EXPECT_TRUE(all_are(data.values<float>(r.stream(), kCount), 2));
  });
}

// The device is the one that was current when the communicator was made, not the one of the call.
TEST(DeviceStream, TheCallersContextIsPutBack) {
  StandIn standin(delayed(50));
  run_device_ranks(standin, 2, [&](Rank& r) {
    int ordinal = -1;
    EXPECT_EQ(ncclCommCuDevice(r.comm, &ordinal), ncclSuccess);
    EXPECT_EQ(ordinal, r.index);
    DeviceMemory data(r.driver(), kBytes);
    r.set(data, kCount, 1);
    {
      const JobStream elsewhere(standin, 3);
      ASSERT_EQ(sum(data, r.comm, r.stream()), ncclSuccess) << failure();
      device::cuda::ContextHandle current = nullptr;
      r.driver().call(r.driver().api().CtxGetCurrent, &current);
      EXPECT_EQ(current, elsewhere.context());
    }
    std::thread([&] {
      EXPECT_EQ(sum(data, r.comm, r.stream()), ncclSuccess) << "no context at all: " << failure();
      device::cuda::ContextHandle current = nullptr;
      r.driver().call(r.driver().api().CtxGetCurrent, &current);
      EXPECT_EQ(current, nullptr);
    }).join();
    EXPECT_TRUE(all_are(data.values<float>(r.stream(), kCount), 4));
  });
}

// The communicator takes the device of the first memory that it meets.
TEST(DeviceStream, CommunicatorMadeWithoutADevice) {
  StandIn standin(devices());
  const std::vector<ncclComm_t> comms = make_clique(2);
  in_threads(2, [&](int index) {
    Rank r(standin, index, 2, index + 1);
    r.comm = comms[r.place()];
    int ordinal = -1;
    EXPECT_EQ(ncclCommCuDevice(r.comm, &ordinal), ncclSuccess);
    EXPECT_EQ(ordinal, 0);
    {
      DeviceMemory data(r.driver(), kBytes);
      r.set(data, kCount, 3);
      ASSERT_EQ(sum(data, r.comm, r.stream()), ncclSuccess) << failure();
      EXPECT_TRUE(all_are(data.values<float>(r.stream(), kCount), 6));
    }
    EXPECT_EQ(ncclCommCuDevice(r.comm, &ordinal), ncclSuccess);
    EXPECT_EQ(ordinal, index + 1);
    EXPECT_EQ(ncclCommDestroy(r.comm), ncclSuccess) << failure();
  });
}

TEST(DeviceStream, NothingToDoReachesNoStream) {
  StandIn standin(devices());
  run_device_ranks(standin, 2, [&](Rank& r) {
    DeviceMemory data(r.driver(), kBytes);
    Gate gate(r.driver(), r.stream());
    if (r.index == 0) {
      EXPECT_EQ(ncclAllReduce(data.at(), data.at(), 0, ncclFloat32, ncclSum, r.comm, r.stream()),
                ncclSuccess);
    }
  });
}

TEST(DeviceStream, DestroyWaitsForWorkInFlight) {
  StandIn standin(delayed(300));
  run_device_ranks(standin, 3, [&](Rank& r) {
    DeviceMemory data(r.driver(), kBytes);
    r.set(data, kCount, 1);
    for (int i = 0; i < 5; ++i) ASSERT_EQ(sum(data, r.comm, r.stream()), ncclSuccess) << failure();
    if (r.index == 1) {
      EXPECT_EQ(ncclCommFinalize(r.comm), ncclSuccess) << failure();
    }
    EXPECT_EQ(ncclCommDestroy(r.comm), ncclSuccess) << failure();
    r.comm = nullptr;
    EXPECT_TRUE(all_are(data.values<float>(r.stream(), kCount), 243));
  });
}

}  // namespace
}  // namespace stepgate::hostnccl::test

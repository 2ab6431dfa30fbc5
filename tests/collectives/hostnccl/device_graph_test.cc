// Collectives recorded into graphs: every replay runs them again, with nothing allocated while a stream
// captures.
#include <gtest/gtest.h>

#include <barrier>

#include "tests/collectives/hostnccl/device_ranks.h"

namespace stepgate::hostnccl::test {
namespace {

using device::cuda::CaptureMode;
using device::cuda::GraphExecHandle;
using device::cuda::GraphHandle;
using device::cuda::Result;

constexpr std::size_t kLarge = 400'000;  // more than the staging that is there from the start

// What a rank enqueues between the beginning and the end of a capture. All ranks record at the same time: no
// thread may allocate meanwhile.
class Recording {
 public:
  template <typename Body>
  Recording(const Rank& rank, Body body, std::barrier<>* meet) : driver_(rank.driver()) {
    meet->arrive_and_wait();
    EXPECT_EQ(driver_.call(driver_.api().StreamBeginCapture, rank.stream(), CaptureMode::kGlobal),
              Result::kSuccess);
    body();
    EXPECT_EQ(driver_.call(driver_.api().StreamEndCapture, rank.stream(), &graph_), Result::kSuccess);
    meet->arrive_and_wait();
    EXPECT_EQ(driver_.call(driver_.api().GraphInstantiateWithFlags, &exec_, graph_, 0ULL), Result::kSuccess);
  }
  ~Recording() {
    EXPECT_EQ(driver_.call(driver_.api().GraphExecDestroy, exec_), Result::kSuccess);
    EXPECT_EQ(driver_.call(driver_.api().GraphDestroy, graph_), Result::kSuccess);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  void replay(cudaStream_t stream) const {
    EXPECT_EQ(driver_.call(driver_.api().GraphLaunch, exec_, stream), Result::kSuccess);
  }

 private:
  const Driver& driver_;
  GraphHandle graph_ = nullptr;
  GraphExecHandle exec_ = nullptr;
};

TEST(DeviceGraph, EveryReplayRunsTheCollectiveAgain) {
  StandIn standin(delayed(50));
  std::barrier meet(3);
  run_device_ranks(standin, 3, [&](Rank& r) {
    DeviceMemory data(r.driver(), kLarge * sizeof(float));
    DeviceMemory copy(r.driver(), kLarge * sizeof(float));
    {
      const Recording recording(
          r,
          [&] {
            ASSERT_EQ(sum(data, r.comm, r.stream(), kLarge), ncclSuccess) << failure();
            ASSERT_EQ(sum(data, r.comm, r.stream(), kLarge), ncclSuccess) << failure();
            data.copy_to(r.stream(), copy);
          },
          &meet);
      for (int replay = 1; replay <= 4; ++replay) {
        r.set(data, kLarge, static_cast<float>(replay));
        recording.replay(r.stream());
        data.fill(r.stream(), 0);
        EXPECT_TRUE(all_are(copy.values<float>(r.stream(), kLarge), static_cast<float>(9 * replay)));
      }
      // Others of the communicator in between keep their own buffers.
      r.set(data, kLarge, 1);
      ASSERT_EQ(sum(data, r.comm, r.stream(), kLarge), ncclSuccess) << failure();
      recording.replay(r.stream());
      EXPECT_TRUE(all_are(copy.values<float>(r.stream(), kLarge), 27));
    }
  });
}

TEST(DeviceGraph, GroupOverTwoStreamsOfOneCapture) {
  StandIn standin(delayed(50));
  std::barrier meet(2);
  run_device_ranks(standin, 2, [&](Rank& r) {
    const Driver& d = r.driver();
    const Stream other(d);
    device::cuda::EventHandle fork = nullptr;
    device::cuda::EventHandle join = nullptr;
    ASSERT_EQ(d.call(d.api().EventCreate, &fork, 2U), Result::kSuccess);
    ASSERT_EQ(d.call(d.api().EventCreate, &join, 2U), Result::kSuccess);
    DeviceMemory a(d, kCount * sizeof(float));
    DeviceMemory b(d, kCount * sizeof(float));
    {
      const Recording recording(
          r,
          [&] {
            d.call(d.api().EventRecord, fork, r.stream());
            d.call(d.api().StreamWaitEvent, other.get(), fork, 0U);
            ASSERT_EQ(ncclGroupStart(), ncclSuccess);
            ASSERT_EQ(sum(a, r.comm, r.stream()), ncclSuccess) << failure();
            ASSERT_EQ(sum(b, r.comm, other.get()), ncclSuccess) << failure();
            ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
            d.call(d.api().EventRecord, join, other.get());
            d.call(d.api().StreamWaitEvent, r.stream(), join, 0U);
          },
          &meet);
      for (int replay = 0; replay < 5; ++replay) {
        r.set(a, kCount, 1);
        r.set(b, kCount, 2);
        recording.replay(r.stream());
        EXPECT_TRUE(all_are(a.values<float>(r.stream(), kCount), 2));
        EXPECT_TRUE(all_are(b.values<float>(r.stream(), kCount), 4));
      }
    }
    d.call(d.api().EventDestroy, fork);
    d.call(d.api().EventDestroy, join);
  });
}

TEST(DeviceGraph, HalfACaptureIsRefused) {
  StandIn standin(devices());
  std::barrier meet(2);
  run_device_ranks(standin, 2, [&](Rank& r) {
    const Stream other(r.driver());
    DeviceMemory a(r.driver(), kCount * sizeof(float));
    DeviceMemory b(r.driver(), kCount * sizeof(float));
    const Recording recording(
        r,
        [&] {
          ASSERT_EQ(ncclGroupStart(), ncclSuccess);
          ASSERT_EQ(sum(a, r.comm, r.stream()), ncclSuccess);
          ASSERT_EQ(sum(b, r.comm, other.get()), ncclSuccess);
          EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
          EXPECT_NE(failure().find("capture"), std::string::npos) << failure();
        },
        &meet);
    r.set(a, kCount, 1);
    ASSERT_EQ(sum(a, r.comm, r.stream()), ncclSuccess) << "the communicator is whole: " << failure();
    EXPECT_TRUE(all_are(a.values<float>(r.stream(), kCount), 2));
  });
}

TEST(DeviceGraph, OneRankIsACopyInTheGraph) {
  StandIn standin(devices());
  std::barrier meet(1);
  run_device_ranks(standin, 1, [&](Rank& r) {
    DeviceMemory in(r.driver(), kCount * sizeof(float));
    DeviceMemory out(r.driver(), kCount * sizeof(float));
    const Recording recording(
        r,
        [&] {
          ASSERT_EQ(ncclAllReduce(in.at(), out.at(), kCount, ncclFloat32, ncclSum, r.comm, r.stream()),
                    ncclSuccess);
        },
        &meet);
    r.set(in, kCount, 6);
    recording.replay(r.stream());
    EXPECT_TRUE(all_are(out.values<float>(r.stream(), kCount), 6));
  });
}

// A replay of a communicator that broke meanwhile ends, with no result.
TEST(DeviceGraph, ReplayOfABrokenCommunicatorEnds) {
  StandIn standin(devices());
  std::barrier meet(2);
  run_device_ranks(standin, 2, [&](Rank& r) {
    DeviceMemory data(r.driver(), kCount * sizeof(float));
    {
      const Recording recording(
          r, [&] { ASSERT_EQ(sum(data, r.comm, r.stream()), ncclSuccess) << failure(); }, &meet);
      r.set(data, kCount, 1);
      recording.replay(r.stream());
      EXPECT_TRUE(all_are(data.values<float>(r.stream(), kCount), 2));
      meet.arrive_and_wait();
      if (r.index == 1) {
        EXPECT_EQ(ncclCommAbort(std::exchange(r.comm, nullptr)), ncclSuccess);
      } else {
        recording.replay(r.stream());
        EXPECT_NE(data.values<float>(r.stream(), 1)[0], 4);
        ncclResult_t state = ncclSuccess;
        EXPECT_EQ(ncclCommGetAsyncError(r.comm, &state), ncclSuccess);
        EXPECT_EQ(state, ncclRemoteError);
      }
    }
  });
}

}  // namespace
}  // namespace stepgate::hostnccl::test

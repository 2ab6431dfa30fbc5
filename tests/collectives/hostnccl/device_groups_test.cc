// Groups on device memory: all start together at the outermost end, on whatever streams.
#include <gtest/gtest.h>

#include <random>

#include "collectives/nccl_abi/nccl_structs.h"
#include "tests/collectives/hostnccl/device_ranks.h"
#include "tests/test_seed.h"

namespace stepgate::hostnccl::test {
namespace {

// The communicators of run_device_ranks, and a second clique of the same ranks.
class SecondClique {
 public:
  explicit SecondClique(int size) : id_(new_id()), size_(size) {}
  ncclComm_t join(int rank) const {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, size_, id_, rank), ncclSuccess) << failure();
    return comm;
  }

 private:
  ncclUniqueId id_;
  int size_;
};

TEST(DeviceGroup, ManyOperationsOnOneStreamFlyTogether) {
  StandIn standin(delayed(100));
  run_device_ranks(standin, 3, [&](Rank& r) {
    std::vector<std::unique_ptr<DeviceMemory>> data;
    for (int i = 0; i < 6; ++i) {
      data.push_back(std::make_unique<DeviceMemory>(r.driver(), kBytes));
      r.set(*data.back(), kCount, static_cast<float>(i));
    }
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, r.comm, r.stream()), ncclSuccess);
    for (const auto& memory : data) ASSERT_EQ(sum(*memory, r.comm, r.stream()), ncclSuccess);
    ASSERT_EQ(ncclBcast(data[0]->at(), kCount, ncclFloat32, 1, r.comm, r.stream()), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
    for (std::size_t i = 1; i < data.size(); ++i) {
      EXPECT_TRUE(all_are(data[i]->values<float>(r.stream(), kCount), static_cast<float>(3 * i)));
    }
  });
}

// Ranks name two communicators on two streams in different orders, and hold different streams up.
TEST(DeviceGroup, TwoCommunicatorsOnTwoStreamsInAnyOrder) {
  StandIn standin(delayed(100));
  const SecondClique second(3);
  run_device_ranks(standin, 3, [&](Rank& r) {
    ncclComm_t other_comm = second.join(r.index);
    {
      const Stream other(r.driver());
      DeviceMemory a(r.driver(), kBytes);
      DeviceMemory b(r.driver(), kBytes);
      r.set(a, kCount, 1);
      r.set(b, kCount, 1);
      r.synchronize();
      for (int round = 0; round < 5; ++round) {
        Gate gate(r.driver(), r.index == 0 ? r.stream() : other.get());
        ASSERT_EQ(ncclGroupStart(), ncclSuccess);
        const bool swapped = r.index % 2 != 0;
        ASSERT_EQ(swapped ? sum(b, other_comm, other.get()) : sum(a, r.comm, r.stream()), ncclSuccess);
        ASSERT_EQ(swapped ? sum(a, r.comm, r.stream()) : sum(b, other_comm, other.get()), ncclSuccess);
        ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        gate.open();
        // Neighbours on both streams, behind the group.
        ASSERT_EQ(sum(a, r.comm, other.get()), ncclSuccess) << failure();
        r.synchronize(other.get());
      }
      EXPECT_TRUE(all_are(a.values<float>(r.stream(), kCount), 59049));  // 3^10
      EXPECT_TRUE(all_are(b.values<float>(other.get(), kCount), 243));
    }
    EXPECT_EQ(ncclCommDestroy(other_comm), ncclSuccess) << failure();
  });
}

// As in NCCL: on return every stream of the group is behind all of it, and it behind every stream.
TEST(DeviceGroup, EveryStreamWaitsForTheWholeGroup) {
  StandIn standin(devices());
  run_device_ranks(standin, 2, [&](Rank& r) {
    const Stream other(r.driver());
    DeviceMemory a(r.driver(), kBytes);
    DeviceMemory b(r.driver(), kBytes);
    r.set(a, kCount, 1);
    r.set(b, kCount, 1);
    r.synchronize();
    Gate gate(r.driver(), other.get());
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(sum(a, r.comm, r.stream()), ncclSuccess);
    ASSERT_EQ(sum(b, r.comm, other.get()), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
    Gate after(r.driver(), r.stream());
    after.open();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(after.passed()) << "one stream of the group overtook the other";
    gate.open();
    EXPECT_TRUE(all_are(a.values<float>(r.stream(), kCount), 2));
    EXPECT_TRUE(all_are(b.values<float>(other.get(), kCount), 2));
  });
}

// A buffer serves the next flight only when the copy out of it is through: the second stream of a group is
// not ordered behind the flight before.
TEST(DeviceGroup, BuffersInUseAreNotTaken) {
  StandIn standin(delayed(4000));
  const SecondClique second(2);
  run_device_ranks(standin, 2, [&](Rank& r) {
    ncclComm_t other_comm = second.join(r.index);
    std::mt19937_64 random(stepgate::test::test_seed() + r.place());
    {
      const Stream other(r.driver());
      const Stream third(r.driver());
      DeviceMemory a(r.driver(), kBytes);
      DeviceMemory b(r.driver(), kBytes);
      DeviceMemory c(r.driver(), kBytes);
      r.set(c, kCount, 0);
      for (int round = 0; round < 25; ++round) {
        r.set(a, kCount, 1);
        r.set(b, kCount, 10);
        r.synchronize();
        EXPECT_EQ(sum(a, r.comm, r.stream()), ncclSuccess) << failure();
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 12'000));
        EXPECT_EQ(ncclGroupStart(), ncclSuccess);
        EXPECT_EQ(sum(c, other_comm, third.get()), ncclSuccess) << failure();
        EXPECT_EQ(sum(b, r.comm, other.get()), ncclSuccess) << failure();
        EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
        EXPECT_TRUE(all_are(b.values<float>(other.get(), kCount), 20)) << "round " << round;
        EXPECT_TRUE(all_are(a.values<float>(r.stream(), kCount), 2)) << "round " << round;
      }
    }
    EXPECT_EQ(ncclCommDestroy(other_comm), ncclSuccess) << failure();
  });
}

// One thread, several devices, one group: no rank may wait for one that is not enqueued yet.
TEST(DeviceGroup, OneThreadDrivesAllRanks) {
  constexpr int kSize = 4;
  StandIn standin(delayed(100));
  const std::vector<ncclComm_t> comms = make_clique(kSize);
  {
    std::vector<std::unique_ptr<Rank>> ranks;
    std::vector<std::unique_ptr<DeviceMemory>> data;
    for (int i = 0; i < kSize; ++i) {
      ranks.push_back(std::make_unique<Rank>(standin, i, kSize, i));
      data.push_back(std::make_unique<DeviceMemory>(ranks.back()->driver(), kBytes));
      ranks.back()->set(*data.back(), kCount, 1);
    }
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      for (std::size_t i = 0; i < kSize; ++i) {
        ASSERT_EQ(sum(*data[i], comms[i], ranks[i]->stream()), ncclSuccess) << failure();
      }
      ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
    }
    // Every stream belongs to its context, and the last one made is current: back to front.
    in_threads(kSize, [&](int index) {
      EXPECT_EQ(ncclCommDestroy(comms[static_cast<std::size_t>(index)]), ncclSuccess) << failure();
    });
    for (std::size_t i = kSize; i-- > 0;) {
      EXPECT_TRUE(all_are(data[i]->values<float>(ranks[i]->stream(), kCount), 64));
      data.pop_back();
      ranks.pop_back();
    }
  }
}

TEST(DeviceGroup, SimulatedOnesLaunchNothing) {
  StandIn standin(devices());
  run_device_ranks(standin, 2, [&](Rank& r) {
    DeviceMemory data(r.driver(), kBytes);
    r.set(data, kCount, 1);
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    info.estimatedTime = 7;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(sum(data, r.comm, r.stream()), ncclSuccess);
    ASSERT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess) << failure();
    EXPECT_EQ(info.estimatedTime, 7) << "not the outermost one";
    ASSERT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess) << failure();
    EXPECT_EQ(info.estimatedTime, NCCL_UNDEF_FLOAT);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << "the depth is 0 again";
    EXPECT_TRUE(all_are(data.values<float>(r.stream(), kCount), 1));
    ASSERT_EQ(sum(data, r.comm, r.stream()), ncclSuccess) << failure();
    EXPECT_TRUE(all_are(data.values<float>(r.stream(), kCount), 2));
  });
}

TEST(DeviceGroup, AnErrorInsideStartsNothing) {
  StandIn standin(devices());
  run_device_ranks(standin, 2, [&](Rank& r) {
    DeviceMemory data(r.driver(), kBytes);
    r.set(data, kCount, 1);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(sum(data, r.comm, r.stream()), ncclSuccess);
    ASSERT_EQ(ncclBcast(data.at(), 1, ncclFloat32, 9, r.comm, r.stream()), ncclInvalidArgument);
    ASSERT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_TRUE(all_are(data.values<float>(r.stream(), kCount), 1));
  });
}

// A communicator of one rank copies at the call, in a group too.
TEST(DeviceGroup, OneRankCopiesAtOnce) {
  StandIn standin(devices());
  run_device_ranks(standin, 1, [&](Rank& r) {
    DeviceMemory in(r.driver(), kBytes);
    DeviceMemory out(r.driver(), kBytes);
    r.set(in, kCount, 4);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(in.at(), out.at(), kCount, ncclFloat32, ncclAvg, r.comm, r.stream()),
              ncclSuccess);
    EXPECT_TRUE(all_are(out.values<float>(r.stream(), kCount), 4));
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  });
}

}  // namespace
}  // namespace stepgate::hostnccl::test

// Gather, scatter, all-to-all, send and receive, and operators with a scalar on the device, on device memory:
// the same random delays as in device_collectives_test.cc.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/collectives/hostnccl/device_ranks.h"

namespace stepgate::hostnccl::test {
namespace {

class PairsOnDevice : public testing::TestWithParam<int> {
 protected:
  PairsOnDevice() : standin_(delayed(150)) {}
  int size() const { return GetParam(); }
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }
  StandIn standin_;
};
INSTANTIATE_TEST_SUITE_P(Ranks, PairsOnDevice, testing::Range(1, 5));

constexpr std::size_t kEach = 1003;
constexpr std::size_t kEachBytes = kEach * sizeof(int);

// What rank `from` has for rank `to`.
std::vector<int> block(int from, int to) {
  std::vector<int> values(kEach);
  std::iota(values.begin(), values.end(), from * 1'000'000 + to * 10'000);
  return values;
}

struct Blocks {
  Blocks(const Rank& r, std::size_t count) : rank(r), memory(r.driver(), count * kEachBytes) {
    memory.fill(r.stream(), 0x11);
  }
  void* at(int place) const { return memory.at(static_cast<std::size_t>(place) * kEachBytes); }
  void write(int place, int from, int to) const {
    const std::vector<int> values = block(from, to);
    memory.upload(rank.stream(), values.data(), kEachBytes, static_cast<std::size_t>(place) * kEachBytes);
    rank.synchronize();  // `values` go
  }
  std::vector<int> read(int place) const {
    return memory.values<int>(rank.stream(), kEach, static_cast<std::size_t>(place) * kEach);
  }
  const Rank& rank;
  DeviceMemory memory;
};

TEST_P(PairsOnDevice, GatherAndScatterApartAndInPlace) {
  run_device_ranks(standin_, size(), [&](Rank& r) {
    for (int root = 0; root < size(); ++root) {
      const bool is_root = r.index == root;
      const Blocks mine(r, 1);
      const Blocks all(r, ranks());
      const Blocks both(r, ranks());
      mine.write(0, r.index, root);
      both.write(r.index, r.index, root);
      ASSERT_EQ(
          ncclGather(mine.at(0), is_root ? all.at(0) : nullptr, kEach, ncclInt32, root, r.comm, r.stream()),
          ncclSuccess)
          << failure();
      ASSERT_EQ(ncclGather(both.at(r.index), both.at(0), kEach, ncclInt32, root, r.comm, r.stream()),
                ncclSuccess)
          << failure();
      for (int from = 0; is_root && from < size(); ++from) {
        EXPECT_EQ(all.read(from), block(from, root));
        EXPECT_EQ(both.read(from), block(from, root));
      }
      for (int to = 0; to < size(); ++to) both.write(to, root, to);
      const void* source = is_root ? both.at(0) : nullptr;
      ASSERT_EQ(ncclScatter(source, mine.at(0), kEach, ncclInt32, root, r.comm, r.stream()), ncclSuccess)
          << failure();
      EXPECT_EQ(mine.read(0), block(root, r.index));
      mine.memory.fill(r.stream(), 0x22);
      void* target = is_root ? both.at(root) : mine.at(0);
      ASSERT_EQ(ncclScatter(source, target, kEach, ncclInt32, root, r.comm, r.stream()), ncclSuccess)
          << failure();
      EXPECT_EQ(is_root ? both.read(root) : mine.read(0), block(root, r.index));
    }
  });
}

TEST_P(PairsOnDevice, AlltoAllAndMessagesBothWays) {
  run_device_ranks(standin_, size(), [&](Rank& r) {
    const Blocks out(r, ranks());
    const Blocks in(r, ranks());
    const Blocks messages(r, ranks());
    for (int other = 0; other < size(); ++other) out.write(other, r.index, other);
    ASSERT_EQ(ncclAlltoAll(out.at(0), in.at(0), kEach, ncclInt32, r.comm, r.stream()), ncclSuccess)
        << failure();
    // Sends and receives of one group on two streams, the own rank included.
    const Stream second(r.driver());
    r.synchronize();
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int peer = 0; peer < size(); ++peer) {
      ASSERT_EQ(ncclRecv(messages.at(peer), kEach, ncclInt32, peer, r.comm, second.get()), ncclSuccess);
      ASSERT_EQ(ncclSend(out.at(peer), kEach, ncclInt32, peer, r.comm, r.stream()), ncclSuccess);
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
    for (int other = 0; other < size(); ++other) {
      EXPECT_EQ(in.read(other), block(other, r.index));
      EXPECT_EQ(messages.read(other), block(other, r.index)) << "all streams of a group are behind it";
    }
    r.synchronize(second.get());
  });
}

TEST_P(PairsOnDevice, ScalarOnTheDeviceIsReadInTheOrderOfTheStream) {
  run_device_ranks(standin_, size(), [&](Rank& r) {
    const DeviceMemory data(r.driver(), kBytes);
    const DeviceMemory shares(r.driver(), kBytes);
    const DeviceMemory scalar(r.driver(), sizeof(float));
    r.set(data, kCount, 3);
    r.set(scalar, 1, 99);
    r.synchronize();
    ncclRedOp_t op = ncclSum;
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, scalar.at(), ncclFloat32, ncclScalarDevice, r.comm), ncclSuccess)
        << failure();
    r.set(scalar, 1, static_cast<float>(r.index + 1));  // enqueued before the collective, so it counts
    ASSERT_EQ(ncclAllReduce(data.at(), data.at(), kCount, ncclFloat32, op, r.comm, r.stream()), ncclSuccess)
        << failure();
    r.set(scalar, 1, 99);  // after it
    const int ranks = size();
    EXPECT_TRUE(
        all_are(data.values<float>(r.stream(), kCount), static_cast<float>(3 * ranks * (ranks + 1) / 2)));
    r.set(scalar, 1, 2);
    r.set(data, kCount, 1);
    const std::size_t share = kCount / static_cast<std::size_t>(ranks);
    ASSERT_EQ(ncclReduceScatter(data.at(), shares.at(), share, ncclFloat32, op, r.comm, r.stream()),
              ncclSuccess)
        << failure();
    EXPECT_TRUE(all_are(shares.values<float>(r.stream(), share), static_cast<float>(2 * ranks)));
    EXPECT_TRUE(all_are(data.values<float>(r.stream(), kCount), 1)) << "what was sent stays as it was";
    EXPECT_EQ(ncclRedOpDestroy(op, r.comm), ncclSuccess);
  });
}

TEST_P(PairsOnDevice, ScalarOnTheHostWorksOnDeviceMemoryToo) {
  run_device_ranks(standin_, size(), [&](Rank& r) {
    const DeviceMemory data(r.driver(), kBytes);
    r.set(data, kCount, 1);
    float scalar = 4;
    ncclRedOp_t op = ncclSum;
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarHostImmediate, r.comm),
              ncclSuccess);
    scalar = 99;
    ASSERT_EQ(ncclAllReduce(data.at(), data.at(), kCount, ncclFloat32, op, r.comm, r.stream()), ncclSuccess)
        << failure();
    EXPECT_TRUE(all_are(data.values<float>(r.stream(), kCount), static_cast<float>(4 * size())));
  });
}

TEST(ScalarOnDevice, DoesNotMeetHostBuffers) {
  const StandIn standin(devices());
  run_device_ranks(standin, 1, [&](Rank& r) {
    const DeviceMemory scalar(r.driver(), sizeof(float));
    r.set(scalar, 1, 2);
    float data = 1;
    ncclRedOp_t op = ncclSum;
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, scalar.at(), ncclFloat32, ncclScalarDevice, r.comm), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(&data, &data, 1, ncclFloat32, op, r.comm, r.stream()), ncclInvalidArgument);
    EXPECT_NE(failure().find("scalar is device memory"), std::string::npos) << failure();
    EXPECT_EQ(data, 1);
  });
}

// A message that fails after the call leaves no result behind.
TEST(PairsOnDeviceFailures, RecvThatNobodySendsToBreaksTheCommunicatorAndSpoilsTheBuffer) {
  const StandIn standin(devices());
  run_device_ranks(standin, 2, [&](Rank& r) {
    const DeviceMemory data(r.driver(), kBytes);
    r.set(data, kCount, 1);
    r.synchronize();
    if (r.index == 0) {
      ASSERT_EQ(ncclRecv(data.at(), kCount, ncclFloat32, 1, r.comm, r.stream()), ncclSuccess) << failure();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_EQ(ncclCommAbort(std::exchange(r.comm, nullptr)), ncclSuccess);
      return;
    }
    EXPECT_TRUE(eventually([&] { return state_of(r.comm) != ncclSuccess; }));
    EXPECT_TRUE(says_gone(state_of(r.comm)));
    for (const float value : data.values<float>(r.stream(), kCount)) ASSERT_NE(value, value) << "a NaN";
    EXPECT_EQ(ncclCommAbort(std::exchange(r.comm, nullptr)), ncclSuccess);
  });
}

}  // namespace
}  // namespace stepgate::hostnccl::test

// Every collective on device memory against the scalar reference: 1 to 4 ranks as threads, apart and in
// place, with random delays before every operation of a stream, and neighbours on the stream that show
// whether the call is ordered with what comes before and after it.
#include <gtest/gtest.h>

#include "tests/collectives/hostnccl/device_ranks.h"
#include "tests/collectives/hostnccl/reference.h"

namespace stepgate::hostnccl::test {
namespace {

constexpr std::size_t kCounts[] = {1, 1000};
constexpr ncclDataType_t kSomeTypes[] = {ncclFloat16, ncclFloat32, ncclInt64};

class OnDevice : public testing::TestWithParam<int> {
 protected:
  OnDevice() : standin_(delayed(150)) {}
  int size() const { return GetParam(); }
  StandIn standin_;
};
INSTANTIATE_TEST_SUITE_P(Ranks, OnDevice, testing::Range(1, 5));

std::size_t width(ncclDataType_t type) {
  return type == ncclFloat16 ? 2 : type == ncclFloat32 ? 4 : 8;
}

// Device memory with a rank's values, written on the stream right before the call, and a copy of the result
// made on the stream right after it.
class Buffer {
 public:
  Buffer(const Rank& rank, ncclDataType_t type, std::size_t count)
      : rank_(rank),
        type_(type),
        count_(count),
        memory_(rank.driver(), count * width(type)),
        copy_(rank.driver(), count * width(type)),
        host_(type, count) {
    memory_.fill(rank.stream(), 0x11);
  }

  void* at(std::size_t element = 0) const { return memory_.at(element * width(type_)); }
  void write(std::size_t at, std::size_t count, ncclRedOp_t op, int rank) {
    fill(&host_, at, count, type_, op, rank);
    memory_.upload(rank_.stream(), host_.at(at), count * width(type_), at * width(type_));
  }
  // Overwrites the memory once it is copied: a copy that came late would have that.
  const TypedBuffer& result() {
    memory_.copy_to(rank_.stream(), copy_);
    memory_.fill(rank_.stream(), 0x22);
    copy_.download(rank_.stream(), host_.data(), count_ * width(type_));
    return host_;
  }

 private:
  const Rank& rank_;
  ncclDataType_t type_;
  std::size_t count_;
  DeviceMemory memory_;
  DeviceMemory copy_;
  TypedBuffer host_;
};

template <typename Body>
void for_all(Body body) {
  for (const ncclDataType_t type : kSomeTypes) {
    for (const std::size_t count : kCounts) body(type, count);
  }
}

TEST_P(OnDevice, AllReduce) {
  run_device_ranks(standin_, size(), [&](Rank& r) {
    for_all([&](ncclDataType_t type, std::size_t count) {
      for (const ncclRedOp_t op : {ncclSum, ncclMax, ncclAvg}) {
        Buffer in(r, type, count);
        Buffer out(r, type, count);
        in.write(0, count, op, r.index);
        ASSERT_EQ(ncclAllReduce(in.at(), out.at(), count, type, op, r.comm, r.stream()), ncclSuccess)
            << failure();
        expect_reduced(out.result(), 0, count, type, op, size());
        in.write(0, count, op, r.index);
        ASSERT_EQ(ncclAllReduce(in.at(), in.at(), count, type, op, r.comm, r.stream()), ncclSuccess)
            << failure();
        expect_reduced(in.result(), 0, count, type, op, size());
      }
    });
  });
}

TEST_P(OnDevice, ReduceScatter) {
  run_device_ranks(standin_, size(), [&](Rank& r) {
    const auto ranks = static_cast<std::size_t>(size());
    for_all([&](ncclDataType_t type, std::size_t count) {
      const std::size_t place = r.place() * count;
      Buffer in(r, type, count * ranks);
      Buffer out(r, type, count);
      in.write(0, count * ranks, ncclSum, r.index);
      ASSERT_EQ(ncclReduceScatter(in.at(), out.at(), count, type, ncclSum, r.comm, r.stream()), ncclSuccess)
          << failure();
      expect_reduced(out.result(), 0, count, type, ncclSum, size(), place);
      ASSERT_EQ(ncclReduceScatter(in.at(), in.at(place), count, type, ncclSum, r.comm, r.stream()),
                ncclSuccess)
          << failure();
      const TypedBuffer& both = in.result();
      expect_reduced(both, place, count, type, ncclSum, size(), place);
      for (std::size_t i = 0; i < count * ranks; ++i) {
        if (i / count == r.place()) continue;
        ASSERT_EQ(both.get(i), sample(type, ncclSum, r.index, i)) << "not this rank's share: " << i;
      }
    });
  });
}

TEST_P(OnDevice, AllGather) {
  run_device_ranks(standin_, size(), [&](Rank& r) {
    const auto ranks = static_cast<std::size_t>(size());
    for_all([&](ncclDataType_t type, std::size_t count) {
      const std::size_t place = r.place() * count;
      Buffer in(r, type, count);
      Buffer apart(r, type, count * ranks);
      Buffer both(r, type, count * ranks);
      in.write(0, count, ncclSum, r.index);
      both.write(place, count, ncclSum, r.index);
      ASSERT_EQ(ncclAllGather(in.at(), apart.at(), count, type, r.comm, r.stream()), ncclSuccess)
          << failure();
      ASSERT_EQ(ncclAllGather(both.at(place), both.at(), count, type, r.comm, r.stream()), ncclSuccess)
          << failure();
      const TypedBuffer& one = apart.result();
      const TypedBuffer& other = both.result();
      for (std::size_t i = 0; i < count * ranks; ++i) {
        const double want = rounded(type, sample(type, ncclSum, static_cast<int>(i / count), i % count));
        ASSERT_EQ(one.get(i), want) << "element " << i;
        ASSERT_EQ(other.get(i), want) << "element " << i;
      }
    });
  });
}

TEST_P(OnDevice, BroadcastFromEveryRoot) {
  run_device_ranks(standin_, size(), [&](Rank& r) {
    for_all([&](ncclDataType_t type, std::size_t count) {
      for (int root = 0; root < size(); ++root) {
        Buffer in(r, type, count);
        Buffer out(r, type, count);
        Buffer both(r, type, count);
        in.write(0, count, ncclSum, r.index);
        both.write(0, count, ncclSum, r.index);
        const void* send = r.index == root ? in.at() : nullptr;
        ASSERT_EQ(ncclBroadcast(send, out.at(), count, type, root, r.comm, r.stream()), ncclSuccess)
            << failure();
        ASSERT_EQ(ncclBcast(both.at(), count, type, root, r.comm, r.stream()), ncclSuccess) << failure();
        const TypedBuffer& one = out.result();
        const TypedBuffer& other = both.result();
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(one.get(i), sample(type, ncclSum, root, i)) << "root " << root << " element " << i;
          ASSERT_EQ(other.get(i), sample(type, ncclSum, root, i)) << "root " << root << " element " << i;
        }
      }
    });
  });
}

TEST_P(OnDevice, ReduceToEveryRootLeavesTheOthersAlone) {
  run_device_ranks(standin_, size(), [&](Rank& r) {
    for_all([&](ncclDataType_t type, std::size_t count) {
      for (int root = 0; root < size(); ++root) {
        Buffer in(r, type, count);
        Buffer out(r, type, count);
        in.write(0, count, ncclSum, r.index);
        void* recv = r.index == root ? out.at() : nullptr;
        ASSERT_EQ(ncclReduce(in.at(), recv, count, type, ncclSum, root, r.comm, r.stream()), ncclSuccess)
            << failure();
        if (r.index == root) expect_reduced(out.result(), 0, count, type, ncclSum, size());
      }
    });
  });
}

// What the staging has to grow for.
TEST_P(OnDevice, MillionsOfElements) {
  run_device_ranks(standin_, size(), [&](Rank& r) {
    for (const std::size_t count :
         {std::size_t{20'000}, std::size_t{1'500'000}, std::size_t{20}, std::size_t{700'001}}) {
      DeviceMemory data(r.driver(), count * sizeof(float));
      r.set(data, count, static_cast<float>(r.index + 1));
      ASSERT_EQ(ncclAllReduce(data.at(), data.at(), count, ncclFloat32, ncclSum, r.comm, r.stream()),
                ncclSuccess)
          << failure();
      const float sum = static_cast<float>(size() * (size() + 1) / 2);
      EXPECT_TRUE(all_are(data.values<float>(r.stream(), count), sum));
    }
  });
}

// Device pages have no rights while nothing runs: a host that touched them would crash.
TEST(OnGuardedDevice, TheHostNeverTouchesDeviceMemory) {
  standin::Options options = devices();
  options.guard = true;
  StandIn standin(options);
  run_device_ranks(standin, 1, [&](Rank& r) {
    DeviceMemory in(r.driver(), kCount * sizeof(float));
    DeviceMemory out(r.driver(), kCount * sizeof(float));
    r.set(in, kCount, 5);
    r.synchronize();
    ASSERT_EQ(ncclAllReduce(in.at(), out.at(), kCount, ncclFloat32, ncclSum, r.comm, r.stream()),
              ncclSuccess);
    EXPECT_TRUE(all_are(out.values<float>(r.stream(), kCount), 5));
  });
  run_device_ranks(standin, 3, [&](Rank& r) {
    DeviceMemory data(r.driver(), kCount * sizeof(float));
    r.set(data, kCount, 1);
    for (int i = 0; i < 5; ++i) {
      ASSERT_EQ(ncclAllReduce(data.at(), data.at(), kCount, ncclFloat32, ncclAvg, r.comm, r.stream()),
                ncclSuccess);
    }
    EXPECT_TRUE(all_are(data.values<float>(r.stream(), kCount), 1));
  });
}

}  // namespace
}  // namespace stepgate::hostnccl::test

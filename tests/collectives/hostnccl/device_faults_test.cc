// Any single call of the driver fails, at any point of a communicator's life: the caller is told or the
// result is right, nothing leaks, nothing hangs.
#include <gtest/gtest.h>

#include "tests/collectives/hostnccl/device_ranks.h"

namespace stepgate::hostnccl::test {
namespace {

constexpr int kLaunchFailed = 719;

// One thread drives both ranks of a communicator on one device, so that every call of the driver is one of
// its own, in an order that repeats.
struct Life {
  ncclResult_t init = ncclSuccess;
  ncclResult_t call = ncclSuccess;
  ncclResult_t repeated = ncclSuccess;  // the call again, where it failed
  ncclResult_t state = ncclSuccess;     // after that
  bool right = false;                   // the result of what succeeded last
  std::uint64_t faults = 0;
};

enum class Where { kInit, kCall, kDestroy };

Life live(const StandIn& standin, Where where, const char* name, std::uint64_t index, std::uint64_t count,
          bool two_streams) {
  Life life;
  const ncclUniqueId id = new_id();
  const auto arm = [&](Where phase) {
    if (phase == where) standin.control().fail(name, index, kLaunchFailed, count);
  };
  const auto disarm = [&](Where phase) {
    if (phase != where) return;
    life.faults = standin.control().faults_hit();
    standin.control().heal();
  };
  Rank r(standin, 0, 1, 0);
  const Stream other(r.driver());
  DeviceMemory data(r.driver(), kBytes);
  DeviceMemory more(r.driver(), kBytes);
  arm(Where::kInit);
  life.init = ncclCommInitRank(&r.comm, 1, id, 0);
  disarm(Where::kInit);
  EXPECT_EQ(life.init == ncclSuccess, r.comm != nullptr);
  if (r.comm != nullptr) {
    EXPECT_EQ(ncclCommDestroy(r.comm), ncclSuccess);
  }
  if (life.init != ncclSuccess) return life;

  const std::vector<ncclComm_t> comms = make_clique(2);
  r.set(data, kCount, 1);
  r.set(more, kCount, 2);
  r.synchronize();
  const auto group = [&] {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    const ncclResult_t a =
        ncclAllReduce(data.at(), data.at(), kCount, ncclFloat32, ncclSum, comms[0], r.stream());
    const ncclResult_t b = ncclAllReduce(more.at(), more.at(), kCount, ncclFloat32, ncclSum, comms[1],
                                         two_streams ? other.get() : r.stream());
    const ncclResult_t end = ncclGroupEnd();
    EXPECT_EQ(a != ncclSuccess ? a : b != ncclSuccess ? b : end, end) << "the end returns the first failure";
    return end;
  };
  arm(Where::kCall);
  life.call = group();
  disarm(Where::kCall);
  if (life.call != ncclSuccess) life.repeated = group();
  if (life.repeated == ncclSuccess) {
    life.right = all_are(data.values<float>(r.stream(), kCount), 3) &&
                 all_are(more.values<float>(two_streams ? other.get() : r.stream(), kCount), 3);
  }
  EXPECT_EQ(ncclCommGetAsyncError(comms[0], &life.state), ncclSuccess);
  r.synchronize();
  r.synchronize(other.get());
  arm(Where::kDestroy);
  const bool broken = life.state != ncclSuccess;
  in_threads(2, [&](int i) {
    ncclComm_t comm = comms[static_cast<std::size_t>(i)];
    EXPECT_EQ(broken ? ncclCommAbort(comm) : ncclCommDestroy(comm), ncclSuccess) << failure();
  });
  disarm(Where::kDestroy);
  return life;
}

void expect_sound(const Life& life, const std::string& what) {
  SCOPED_TRACE(what);
  if (life.init != ncclSuccess) {
    EXPECT_EQ(life.init, ncclUnhandledCudaError);
    return;
  }
  if (life.call == ncclSuccess) {
    EXPECT_TRUE(life.right);
    EXPECT_EQ(life.state, ncclSuccess);
    return;
  }
  EXPECT_EQ(life.call, ncclUnhandledCudaError);
  // Broken and told so, or whole and the repetition worked.
  if (life.state == ncclSuccess) {
    EXPECT_EQ(life.repeated, ncclSuccess);
    EXPECT_TRUE(life.right);
  } else {
    EXPECT_EQ(life.state, ncclUnhandledCudaError);
    EXPECT_EQ(life.repeated, ncclUnhandledCudaError);
  }
}

class Faults : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Streams, Faults, testing::Bool(),
                         [](const auto& streams) { return std::string(streams.param ? "Two" : "One"); });

// Until an index is past the last call of its phase.
TEST_P(Faults, AnySingleCallAtAnyPoint) {
  for (const Where where : {Where::kInit, Where::kCall, Where::kDestroy}) {
    int told = 0;
    std::uint64_t index = 0;
    for (;; ++index) {
      ASSERT_LT(index, 500U);
      StandIn standin(devices());
      const Life life = live(standin, where, nullptr, index, 1, GetParam());
      expect_sound(life,
                   "phase " + std::to_string(static_cast<int>(where)) + " call " + std::to_string(index));
      told += (life.init != ncclSuccess || life.call != ncclSuccess) ? 1 : 0;
      if (life.faults == 0) break;
    }
    EXPECT_GE(index, 2U) << "the phase calls the driver";
    EXPECT_GE(told, where == Where::kDestroy ? 0 : 4) << "most failures are told";
  }
}

// From one call on every call of a function fails.
TEST_P(Faults, AFunctionThatNoLongerWorks) {
  for (const char* name : {"cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2", "cuLaunchHostFunc",
                           "cuEventRecord", "cuStreamWaitEvent", "cuCtxGetCurrent", "cuPointerGetAttribute",
                           "cuEventCreate", "cuStreamIsCapturing", "cuMemHostAlloc"}) {
    for (std::uint64_t index = 0; index < 3; ++index) {
      StandIn standin(devices());
      const Life life = live(standin, Where::kCall, name, index, 1'000'000, GetParam());
      expect_sound(life, std::string(name) + " from " + std::to_string(index));
    }
  }
}

// A copy that was enqueued may still come: its buffer is used again only when the stream tells that it is
// through. `lost`: how many launches of host functions fail: the first is the
// flight itself, the next the word that its copies are through.
std::int64_t new_buffers_after(std::uint64_t lost) {
  StandIn standin(devices());
  std::int64_t more = 0;
  const std::vector<ncclComm_t> comms = make_clique(2);
  {
    Rank r(standin, 0, 1, 0);
    DeviceMemory data(r.driver(), kBytes);
    DeviceMemory other(r.driver(), kBytes);
    const auto group = [&] {
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(sum(data, comms[0], r.stream()), ncclSuccess) << failure();
      EXPECT_EQ(sum(other, comms[1], r.stream()), ncclSuccess) << failure();
      return ncclGroupEnd();
    };
    EXPECT_EQ(group(), ncclSuccess) << failure();
    r.synchronize();
    const std::int64_t before = standin.control().account().pinned_blocks;
    standin.control().fail("cuLaunchHostFunc", 0, kLaunchFailed, lost);
    EXPECT_EQ(group(), ncclUnhandledCudaError);
    standin.control().heal();
    r.synchronize();
    EXPECT_EQ(group(), ncclSuccess) << failure();
    more = standin.control().account().pinned_blocks - before;
    in_threads(2, [&](int i) {
      EXPECT_EQ(ncclCommDestroy(comms[static_cast<std::size_t>(i)]), ncclSuccess) << failure();
    });
  }
  return more;
}

TEST(FaultsAfterwards, BuffersComeBackWhenTheCopiesAreThrough) {
  EXPECT_EQ(new_buffers_after(1), 0);
}

TEST(FaultsAfterwards, BuffersStayOutWhereNothingTellsThat) {
  EXPECT_EQ(new_buffers_after(1000), 2);
}

}  // namespace
}  // namespace stepgate::hostnccl::test

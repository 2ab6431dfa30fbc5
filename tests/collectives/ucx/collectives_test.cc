// Every collective against the scalar reference: transports x sizes x counts x types x reductions, in
// place and out of place. The data are integers that every type holds exactly, so equality is exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <tuple>

#include "tests/collectives/ucx/ranks.h"
#include "tests/collectives/ucx/values.h"

namespace stepgate::transport::testing {
namespace {

// 0, 1, odd ones around vector widths, one just above the switch from doubling to the ring.
constexpr size_t kCounts[] = {0, 1, 3, 17, 1021, 33 * 1024 + 5};

class Collectives : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  Setting setting() const { return {std::get<0>(GetParam()), 60}; }
  int size() const { return std::get<1>(GetParam()); }
};

std::string param_name(const ::testing::TestParamInfo<std::tuple<const char*, int>>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, Collectives,
                         ::testing::Combine(::testing::Values("tcp", "shm"),
                                            ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8)),
                         param_name);

Buffer samples(int rank, size_t first, size_t count, sgt_type type, sgt_reduction reduction) {
  Buffer buffer(type, count);
  for (size_t i = 0; i < count; ++i) buffer.set(i, sample(rank, first + i, type, reduction));
  return buffer;
}

// The first wrong element of buffer[0..count), whose reference index starts at `first`.
::testing::AssertionResult right(const Buffer& buffer, size_t first, int size, sgt_type type,
                                 sgt_reduction reduction) {
  for (size_t i = 0; i < buffer.count(); ++i) {
    const double want = expected(size, first + i, type, reduction);
    if (buffer.get(i) != want)
      return ::testing::AssertionFailure()
             << name_of(type) << " " << name_of(reduction) << " of " << buffer.count() << ", element " << i
             << ": " << buffer.get(i) << ", not " << want;
  }
  return ::testing::AssertionSuccess();
}

void check_allreduce(Rank& rank, size_t count, sgt_type type, sgt_reduction reduction, bool in_place) {
  Buffer send = samples(rank.rank, 0, count, type, reduction);
  const Buffer before = send;
  Buffer recv(type, count);
  const Outcome outcome = in_place ? rank.allreduce_wait(send.data(), send.data(), count, type, reduction)
                                   : rank.allreduce(send.data(), recv.data(), count, type, reduction);
  ASSERT_EQ(outcome.status, SGT_OK) << outcome.error.message;
  ASSERT_TRUE(right(in_place ? send : recv, 0, rank.size, type, reduction)) << (in_place ? "in place" : "");
  ASSERT_TRUE(in_place || send.bytes() == before.bytes()) << "the send buffer changed";
}

TEST_P(Collectives, AllReduceEqualsTheReference) {
  run_ranks(size(), setting(), [](Rank& rank) {
    for (const sgt_type type : kAllTypes)
      for (const sgt_reduction reduction : kAllReductions)
        for (const size_t count : kCounts) {
          check_allreduce(rank, count, type, reduction, false);
          check_allreduce(rank, count, type, reduction, true);
          if (::testing::Test::HasFatalFailure()) return;
        }
  });
}

void check_reduce_scatter(Rank& rank, size_t count, sgt_type type, sgt_reduction reduction, bool in_place) {
  const size_t first = count * static_cast<size_t>(rank.rank);
  Buffer send = samples(rank.rank, 0, count * static_cast<size_t>(rank.size), type, reduction);
  Buffer recv(type, count);
  void* where = in_place ? send.at(first) : recv.data();
  const Outcome outcome = rank.reduce_scatter(send.data(), where, count, type, reduction);
  ASSERT_EQ(outcome.status, SGT_OK) << outcome.error.message;
  if (in_place && count != 0)
    std::copy_n(static_cast<unsigned char*>(where), recv.bytes().size(),
                static_cast<unsigned char*>(recv.data()));
  ASSERT_TRUE(right(recv, first, rank.size, type, reduction)) << (in_place ? "in place" : "");
}

TEST_P(Collectives, ReduceScatterEqualsTheReference) {
  run_ranks(size(), setting(), [](Rank& rank) {
    for (const sgt_type type : kAllTypes)
      for (const sgt_reduction reduction : kAllReductions)
        for (const size_t count : {size_t{0}, size_t{1}, size_t{17}, size_t{4099}}) {
          check_reduce_scatter(rank, count, type, reduction, false);
          check_reduce_scatter(rank, count, type, reduction, true);
          if (::testing::Test::HasFatalFailure()) return;
        }
  });
}

void check_allgather(Rank& rank, size_t count, sgt_type type, bool in_place) {
  const size_t mine = count * static_cast<size_t>(rank.rank);
  const Buffer send = samples(rank.rank, mine, count, type, SGT_SUM);
  Buffer recv(type, count * static_cast<size_t>(rank.size));
  if (in_place)
    std::copy(send.bytes().begin(), send.bytes().end(), static_cast<unsigned char*>(recv.at(mine)));
  const Outcome outcome = rank.allgather(in_place ? recv.at(mine) : send.data(), recv.data(), count, type);
  ASSERT_EQ(outcome.status, SGT_OK) << outcome.error.message;
  for (size_t i = 0; i < recv.count(); ++i)
    ASSERT_EQ(recv.get(i), sample(static_cast<int>(i / count), i, type, SGT_SUM))
        << name_of(type) << " element " << i;
}

TEST_P(Collectives, AllGatherHandsOutEveryShare) {
  run_ranks(size(), setting(), [](Rank& rank) {
    for (const sgt_type type : kAllTypes)
      for (const size_t count : kCounts) {
        check_allgather(rank, count, type, false);
        check_allgather(rank, count, type, true);
        if (::testing::Test::HasFatalFailure()) return;
      }
  });
}

void check_broadcast(Rank& rank, size_t count, sgt_type type, int root, bool in_place) {
  const Buffer truth = samples(root, 0, count, type, SGT_SUM);
  Buffer recv(type, count);
  if (in_place && rank.rank == root) recv = truth;
  // Only the root's send buffer counts: the others may pass none.
  const void* send = rank.rank != root ? nullptr : in_place ? recv.data() : truth.data();
  const Outcome outcome = rank.broadcast(send, recv.data(), count, type, root);
  ASSERT_EQ(outcome.status, SGT_OK) << outcome.error.message;
  ASSERT_EQ(recv.bytes(), truth.bytes()) << name_of(type) << " count " << count << " root " << root;
}

TEST_P(Collectives, BroadcastReachesEveryRankFromEveryRoot) {
  run_ranks(size(), setting(), [](Rank& rank) {
    for (int root = 0; root < rank.size; ++root)
      for (const size_t count : kCounts) {
        check_broadcast(rank, count, SGT_FLOAT32, root, false);
        check_broadcast(rank, count, SGT_INT8, root, true);
        if (::testing::Test::HasFatalFailure()) return;
      }
  });
}

TEST_P(Collectives, MebibytesPassThroughTheRingInManySlices) {
  run_ranks(size(), setting(), [](Rank& rank) {
    constexpr size_t kCount = (5u << 20) / 4 + 3;  // 5 MiB, no multiple of anything
    check_allreduce(rank, kCount, SGT_FLOAT32, SGT_SUM, true);
    check_allreduce(rank, kCount * 2, SGT_FLOAT16, SGT_AVG, false);
    check_broadcast(rank, kCount, SGT_FLOAT32, rank.size - 1, false);
    check_reduce_scatter(rank, kCount / static_cast<size_t>(rank.size), SGT_BFLOAT16, SGT_SUM, true);
    check_allgather(rank, kCount / static_cast<size_t>(rank.size), SGT_FLOAT64, false);
  });
}

// No rank leaves the barrier before the last has entered it.
TEST_P(Collectives, BarrierHoldsUntilTheLastHasEntered) {
  std::atomic<int> entered{0};
  run_ranks(size(), setting(), [&](Rank& rank) {
    for (int round = 1; round <= 20; ++round) {
      if (rank.rank == round % rank.size) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++entered;
      const Outcome outcome = rank.barrier();
      ASSERT_EQ(outcome.status, SGT_OK) << outcome.error.message;
      ASSERT_GE(entered.load(), round * rank.size);
    }
  });
}

}  // namespace
}  // namespace stepgate::transport::testing

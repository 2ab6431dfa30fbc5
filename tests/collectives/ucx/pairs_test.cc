// Reduce, gather, scatter, all-to-all and messages between two ranks: transports x sizes x roots x counts.
#include <gtest/gtest.h>

#include <thread>
#include <tuple>

#include "tests/collectives/ucx/ranks.h"
#include "tests/collectives/ucx/values.h"

namespace stepgate::transport::testing {
namespace {

// The last two are above one message of a slice, and above the switch of the reduction to the ring.
constexpr size_t kCounts[] = {0, 1, 17, 33 * 1024 + 5, 300 * 1024 + 3};
constexpr double kUntouched = 99;

class Pairs : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  Setting setting() const { return {std::get<0>(GetParam()), 60}; }
  int size() const { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(All, Pairs,
                         ::testing::Combine(::testing::Values("tcp", "shm"),
                                            ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param)) + "_" +
                                  std::to_string(std::get<1>(tested.param));
                         });

// Names block `from` on its way to rank `to`.
int32_t mark(int from, int to, size_t index) {
  return static_cast<int32_t>(from * 1000003 + to * 10007 + static_cast<int>(index % 9973));
}

std::vector<int32_t> marks(int from, int to, size_t count) {
  std::vector<int32_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = mark(from, to, i);
  return values;
}

void append(std::vector<int32_t>* all, const std::vector<int32_t>& more) {
  all->insert(all->end(), more.begin(), more.end());
}

Buffer samples(int rank, size_t count, sgt_type type, sgt_reduction reduction) {
  Buffer buffer(type, count);
  for (size_t i = 0; i < count; ++i) buffer.set(i, sample(rank, i, type, reduction));
  return buffer;
}

void check_reduce(Rank& rank, size_t count, sgt_type type, sgt_reduction reduction, int root, bool in_place) {
  Buffer send = samples(rank.rank, count, type, reduction);
  const Buffer before = send;
  Buffer recv(type, count);
  for (size_t i = 0; i < count; ++i) recv.set(i, kUntouched);
  const bool collects = rank.rank == root;
  void* target = !collects ? nullptr : in_place ? send.data() : recv.data();
  const Outcome outcome = rank.reduce(send.data(), target, count, type, reduction, root);
  ASSERT_EQ(outcome.status, SGT_OK) << outcome.error.message;
  ASSERT_TRUE((collects && in_place) || send.bytes() == before.bytes()) << "the send buffer changed";
  const Buffer& result = in_place ? send : recv;
  for (size_t i = 0; collects && i < count; ++i)
    ASSERT_EQ(result.get(i), expected(rank.size, i, type, reduction))
        << name_of(type) << " " << name_of(reduction) << " of " << count << " to " << root << ", element "
        << i;
}

TEST_P(Pairs, ReduceEqualsTheReferenceAtEveryRoot) {
  run_ranks(size(), setting(), [](Rank& rank) {
    for (int root = 0; root < rank.size; ++root)
      for (const size_t count : {size_t{0}, size_t{1}, size_t{1021}, size_t{33 * 1024 + 5}}) {
        check_reduce(rank, count, SGT_FLOAT32, SGT_SUM, root, false);
        check_reduce(rank, count, SGT_FLOAT32, SGT_AVG, root, true);
        check_reduce(rank, count, SGT_UINT8, SGT_MAX, root, true);
        if (::testing::Test::HasFatalFailure()) return;
      }
    for (const sgt_type type : kAllTypes)
      for (const sgt_reduction reduction : kAllReductions) {
        check_reduce(rank, 333, type, reduction, rank.size - 1, false);
        if (::testing::Test::HasFatalFailure()) return;
      }
  });
}

TEST_P(Pairs, GatherPutsEveryShareInItsPlace) {
  run_ranks(size(), setting(), [](Rank& rank) {
    for (int root = 0; root < rank.size; ++root)
      for (const size_t count : kCounts) {
        const std::vector<int32_t> mine = marks(rank.rank, root, count);
        std::vector<int32_t> all(rank.rank == root ? count * static_cast<size_t>(rank.size) : 0);
        const Outcome outcome = rank.gather(mine.data(), all.data(), count, SGT_INT32, root);
        ASSERT_EQ(outcome.status, SGT_OK) << outcome.error.message;
        if (rank.rank != root) continue;
        std::vector<int32_t> want;
        for (int from = 0; from < rank.size; ++from) append(&want, marks(from, root, count));
        ASSERT_TRUE(all == want) << count << " to " << root;
      }
  });
}

TEST_P(Pairs, ScatterHandsOutTheSharesOfTheRoot) {
  run_ranks(size(), setting(), [](Rank& rank) {
    for (int root = 0; root < rank.size; ++root)
      for (const size_t count : kCounts) {
        std::vector<int32_t> all, mine(count, -1);
        for (int to = 0; rank.rank == root && to < rank.size; ++to) append(&all, marks(root, to, count));
        const Outcome outcome = rank.scatter(all.data(), mine.data(), count, SGT_INT32, root);
        ASSERT_EQ(outcome.status, SGT_OK) << outcome.error.message;
        ASSERT_TRUE(mine == marks(root, rank.rank, count)) << count << " from " << root;
      }
  });
}

TEST_P(Pairs, AllToAllTransposes) {
  run_ranks(size(), setting(), [](Rank& rank) {
    for (const size_t count : kCounts) {
      std::vector<int32_t> out, want;
      for (int other = 0; other < rank.size; ++other) {
        append(&out, marks(rank.rank, other, count));
        append(&want, marks(other, rank.rank, count));
      }
      std::vector<int32_t> in(out.size(), -1);
      const Outcome outcome = rank.alltoall(out.data(), in.data(), count, SGT_INT32);
      ASSERT_EQ(outcome.status, SGT_OK) << outcome.error.message;
      ASSERT_TRUE(in == want) << count;
    }
  });
}

// A message in flight.
struct Started {
  sgt_op* op = nullptr;
  sgt_error error{};
  sgt_status status = SGT_OK;
};

// Every rank to every other, several messages of different lengths each, all in flight together with a
// collective, which half of the ranks start before them and half after.
TEST_P(Pairs, MessagesPassBothWaysInTheirOrder) {
  constexpr size_t kLengths[] = {1, 70001, 3, 1};
  run_ranks(size(), setting(), [&](Rank& rank) {
    std::vector<std::vector<int32_t>> out, in;
    for (int other = 0; other < rank.size; ++other)
      for (const size_t length : kLengths) {
        out.push_back(marks(rank.rank, other, length));
        out.back()[0] = static_cast<int32_t>(out.size());
        in.emplace_back(length, -1);
      }
    std::vector<Started> started;
    const auto start = [&](auto function, int peer, auto* data, size_t count) {
      Started s;
      s.status = function(rank.world, data, count, SGT_INT32, peer, &s.op, &s.error);
      ASSERT_EQ(s.status, SGT_OK) << s.error.message;
      started.push_back(s);
    };
    int32_t one = 1;
    const auto sum = [&] {
      Started s;
      s.status = transport().allreduce(rank.world, &one, &one, 1, SGT_INT32, SGT_SUM, &s.op, &s.error);
      started.push_back(s);
    };
    if (rank.rank % 2 == 0) sum();
    for (int other = 0; other < rank.size; ++other) {
      if (other == rank.rank) continue;
      for (size_t i = 0; i < std::size(kLengths); ++i) {
        const size_t at = static_cast<size_t>(other) * std::size(kLengths) + i;
        start(transport().send, other, out[at].data(), out[at].size());
        start(transport().recv, other, in[at].data(), in[at].size());
      }
    }
    if (rank.rank % 2 != 0) sum();
    for (Started& s : started) {
      const Outcome outcome = finish(s.status, s.op, s.error);
      ASSERT_EQ(outcome.status, SGT_OK) << outcome.error.message;
    }
    EXPECT_EQ(one, rank.size);
    for (int other = 0; other < rank.size; ++other) {
      if (other == rank.rank) continue;
      for (size_t i = 0; i < std::size(kLengths); ++i) {
        std::vector<int32_t> want = marks(other, rank.rank, kLengths[i]);
        want[0] = static_cast<int32_t>(static_cast<size_t>(rank.rank) * std::size(kLengths) + i + 1);
        ASSERT_TRUE(in[static_cast<size_t>(other) * std::size(kLengths) + i] == want) << other << " " << i;
      }
    }
  });
}

TEST(PairFailures, AMessageOfAnotherLengthBreaksTheWorldOfBoth) {
  for (const char* transports : {"tcp", "shm"})
    for (const size_t length : {size_t{3}, size_t{5}, size_t{200000}})
      run_ranks(2, {transports, 20}, [&](Rank& rank) {
        std::vector<int32_t> data(200000);
        const Outcome outcome = rank.rank == 0 ? rank.send(data.data(), length, SGT_INT32, 1)
                                               : rank.recv(data.data(), 4, SGT_INT32, 0);
        if (rank.rank == 1) {
          EXPECT_EQ(outcome.status, SGT_SYSTEM) << outcome.error.message;
          EXPECT_NE(std::string(outcome.error.message).find("16 bytes"), std::string::npos)
              << outcome.error.message;
        }
        EXPECT_NE(rank.barrier().status, SGT_OK) << "the sender hears of it";
      });
}

TEST(PairFailures, AReceiveWithoutASendEndsAtTheDeadline) {
  for (const char* transports : {"tcp", "shm"})
    run_ranks(2, {transports, 1}, [&](Rank& rank) {
      int32_t data = 0;
      if (rank.rank == 0) {
        const Outcome outcome = rank.recv(&data, 1, SGT_INT32, 1);
        EXPECT_EQ(outcome.status, SGT_TIMEOUT) << outcome.error.message;
        EXPECT_EQ(outcome.error.culprit, 1) << outcome.error.message;
      } else {
        sgt_error error{};
        while (transport().world_status(rank.world, &error) == SGT_OK) std::this_thread::yield();
        EXPECT_EQ(error.status, SGT_TIMEOUT) << error.message;
      }
    });
}

TEST(PairArguments, ThePeerIsAnotherRankAndTheRootExists) {
  run_ranks(2, {}, [](Rank& rank) {
    int32_t data = 0;
    EXPECT_EQ(rank.send(&data, 1, SGT_INT32, rank.rank).status, SGT_INVALID);
    EXPECT_EQ(rank.recv(&data, 1, SGT_INT32, 2).status, SGT_INVALID);
    EXPECT_EQ(rank.recv(nullptr, 1, SGT_INT32, 1 - rank.rank).status, SGT_INVALID);
    EXPECT_EQ(rank.gather(&data, &data, 1, SGT_INT32, -1).status, SGT_INVALID);
    EXPECT_EQ(rank.scatter(&data, &data, 1, SGT_INT32, 2).status, SGT_INVALID);
    EXPECT_EQ(rank.reduce(&data, &data, 1, SGT_INT32, SGT_SUM, 2).status, SGT_INVALID);
    EXPECT_EQ(rank.alltoall(nullptr, &data, 1, SGT_INT32).status, SGT_INVALID);
    EXPECT_EQ(rank.alltoall(&data, &data, 1, static_cast<sgt_type>(12)).status, SGT_INVALID);
    EXPECT_EQ(rank.barrier().status, SGT_OK) << "the world is unharmed";
  });
}

TEST(Table, SpeaksOneVersion) {
  EXPECT_EQ(transport().abi_version, SGT_ABI_VERSION);
  EXPECT_EQ(table(SGT_ABI_VERSION - 1), nullptr);
  EXPECT_EQ(table(SGT_ABI_VERSION + 1), nullptr);
}

}  // namespace
}  // namespace stepgate::transport::testing

// Gather, scatter, all-to-all, send and receive through the built library: 1 to 8 ranks, types of every
// width.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "tests/collectives/hostnccl/ranks.h"
#include "tests/collectives/hostnccl/typed_buffer.h"

namespace stepgate::hostnccl::test {
namespace {

constexpr std::size_t kPairCounts[] = {1, 13, 20011};
// One of each width: nothing here computes. (hostnccl_conformance moves all types.)
constexpr ncclDataType_t kWidths[] = {ncclFloat8e4m3, ncclBfloat16, ncclInt32, ncclFloat64};
constexpr double kPairUntouched = 1;

class Pairs : public testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Pairs, testing::Range(1, 9));

// What rank `from` has for rank `to`; a code that every type holds.
double code(ncclDataType_t type, int from, int to, std::size_t index) {
  return sample(type, ncclSum, from * 5 + to, index);
}

void write(TypedBuffer* buffer, std::size_t at, std::size_t count, ncclDataType_t type, int from, int to) {
  for (std::size_t i = 0; i < count; ++i) buffer->set(at + i, code(type, from, to, i));
}

void expect_from(const TypedBuffer& buffer, std::size_t at, std::size_t count, ncclDataType_t type, int from,
                 int to) {
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(buffer.get(at + i), code(type, from, to, i))
        << "type " << type << " count " << count << " from " << from << " to " << to << " element " << i;
  }
}

TEST_P(Pairs, GatherToEveryRootApartAndInPlace) {
  run_ranks(size(), [&](int rank, ncclComm_t comm) {
    for (const ncclDataType_t type : kWidths) {
      for (const std::size_t count : kPairCounts) {
        for (int root = 0; root < size(); root += 3) {
          const auto place = static_cast<std::size_t>(rank) * count;
          TypedBuffer in(type, count);
          TypedBuffer apart(type, count * ranks());
          TypedBuffer both(type, count * ranks());
          write(&in, 0, count, type, rank, root);
          write(&both, place, count, type, rank, root);
          void* target = rank == root ? apart.data() : nullptr;
          ASSERT_EQ(ncclGather(in.data(), target, count, type, root, comm, nullptr), ncclSuccess)
              << failure();
          ASSERT_EQ(ncclGather(both.at(place), both.data(), count, type, root, comm, nullptr), ncclSuccess)
              << failure();
          for (int from = 0; rank == root && from < size(); ++from) {
            expect_from(apart, static_cast<std::size_t>(from) * count, count, type, from, root);
            expect_from(both, static_cast<std::size_t>(from) * count, count, type, from, root);
          }
        }
      }
    }
  });
}

TEST_P(Pairs, ScatterFromEveryRootApartAndInPlace) {
  run_ranks(size(), [&](int rank, ncclComm_t comm) {
    for (const ncclDataType_t type : kWidths) {
      for (const std::size_t count : kPairCounts) {
        for (int root = 0; root < size(); root += 3) {
          const auto place = static_cast<std::size_t>(rank) * count;
          TypedBuffer all(type, count * ranks());
          TypedBuffer out(type, count);
          for (int to = 0; to < size(); ++to)
            write(&all, static_cast<std::size_t>(to) * count, count, type, root, to);
          const void* source = rank == root ? all.data() : nullptr;
          ASSERT_EQ(ncclScatter(source, out.data(), count, type, root, comm, nullptr), ncclSuccess)
              << failure();
          expect_from(out, 0, count, type, root, rank);
          TypedBuffer elsewhere(type, count);
          void* target = rank == root ? all.at(place) : elsewhere.data();
          ASSERT_EQ(ncclScatter(source, target, count, type, root, comm, nullptr), ncclSuccess) << failure();
          expect_from(rank == root ? all : elsewhere, rank == root ? place : 0, count, type, root, rank);
        }
      }
    }
  });
}

TEST_P(Pairs, AlltoAllTransposes) {
  run_ranks(size(), [&](int rank, ncclComm_t comm) {
    for (const ncclDataType_t type : kWidths) {
      for (const std::size_t count : kPairCounts) {
        TypedBuffer in(type, count * ranks());
        TypedBuffer out(type, count * ranks());
        for (int other = 0; other < size(); ++other)
          write(&in, static_cast<std::size_t>(other) * count, count, type, rank, other);
        ASSERT_EQ(ncclAlltoAll(in.data(), out.data(), count, type, comm, nullptr), ncclSuccess) << failure();
        for (int other = 0; other < size(); ++other)
          expect_from(out, static_cast<std::size_t>(other) * count, count, type, other, rank);
      }
    }
  });
}

// Every rank to every rank, itself too, in one group; receives named before sends by every second rank.
TEST_P(Pairs, SendAndRecvBothWaysInOneGroup) {
  run_ranks(size(), [&](int rank, ncclComm_t comm) {
    for (const ncclDataType_t type : kWidths) {
      for (const std::size_t count : kPairCounts) {
        TypedBuffer in(type, count * ranks());
        TypedBuffer out(type, count * ranks());
        const auto at = [&](int other) { return static_cast<std::size_t>(other) * count; };
        for (int other = 0; other < size(); ++other) write(&in, at(other), count, type, rank, other);
        const auto send_all = [&] {
          for (int to = 0; to < size(); ++to)
            ASSERT_EQ(ncclSend(in.at(at(to)), count, type, to, comm, nullptr), ncclSuccess) << failure();
        };
        ASSERT_EQ(ncclGroupStart(), ncclSuccess);
        if (rank % 2 == 0) send_all();
        for (int from = size() - 1; from >= 0; --from)
          ASSERT_EQ(ncclRecv(out.at(at(from)), count, type, from, comm, nullptr), ncclSuccess) << failure();
        if (rank % 2 != 0) send_all();
        ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
        for (int other = 0; other < size(); ++other) expect_from(out, at(other), count, type, other, rank);
      }
    }
  });
}

// A chain without groups: each waits for the one before it.
TEST_P(Pairs, RelayOutsideOfGroups) {
  run_ranks(size(), [&](int rank, ncclComm_t comm) {
    std::vector<float> data(100'000, static_cast<float>(rank == 0 ? 7 : -1));
    const auto hop = [&](bool sends, int peer) {
      return sends ? ncclSend(data.data(), data.size(), ncclFloat32, peer, comm, nullptr)
                   : ncclRecv(data.data(), data.size(), ncclFloat32, peer, comm, nullptr);
    };
    if (rank > 0) {
      ASSERT_EQ(hop(false, rank - 1), ncclSuccess) << failure();
    }
    EXPECT_EQ(data.front() + data.back(), 14);
    if (rank + 1 == size()) return;
    ASSERT_EQ(hop(true, rank + 1), ncclSuccess) << failure();
  });
}

TEST(SelfMessages, AreMatchedInOrderWithinTheGroup) {
  run_ranks(2, [](int rank, ncclComm_t comm) {
    int out[4] = {1, 2, 3, 4};
    int in[4] = {};
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclRecv(&in[0], 1, ncclInt32, rank, comm, nullptr), ncclSuccess);
    ASSERT_EQ(ncclSend(&out[0], 1, ncclInt32, rank, comm, nullptr), ncclSuccess);
    ASSERT_EQ(ncclSend(&out[1], 2, ncclInt32, rank, comm, nullptr), ncclSuccess);
    ASSERT_EQ(ncclSend(&out[3], 1, ncclInt32, rank, comm, nullptr), ncclSuccess);
    ASSERT_EQ(ncclRecv(&in[1], 2, ncclInt32, rank, comm, nullptr), ncclSuccess);
    ASSERT_EQ(ncclRecv(&in[3], 1, ncclInt32, rank, comm, nullptr), ncclSuccess);
    EXPECT_EQ(in[0], 0) << "nothing runs before the end";
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
    EXPECT_TRUE(std::equal(out, out + 4, in));
  });
}

TEST(SelfMessages, OneHalfAloneIsRefusedAndNothingStarts) {
  run_ranks(2, [](int rank, ncclComm_t comm) {
    int value = 1;
    EXPECT_EQ(ncclSend(&value, 1, ncclInt32, rank, comm, nullptr), ncclInvalidUsage);
    EXPECT_NE(failure().find("without a matching ncclRecv"), std::string::npos) << failure();
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr), ncclSuccess);
    ASSERT_EQ(ncclRecv(&value, 1, ncclInt32, rank, comm, nullptr), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
    EXPECT_NE(failure().find("without a matching ncclSend"), std::string::npos) << failure();
    EXPECT_EQ(value, 1);
    int other = 0;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclSend(&value, 1, ncclInt32, rank, comm, nullptr), ncclSuccess);
    ASSERT_EQ(ncclRecv(&other, 4, ncclInt8, rank, comm, nullptr), ncclSuccess) << "bytes count, not elements";
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
    EXPECT_EQ(other, 1);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclSend(&value, 1, ncclInt32, rank, comm, nullptr), ncclSuccess);
    ASSERT_EQ(ncclRecv(&other, 2, ncclInt8, rank, comm, nullptr), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr), ncclSuccess)
        << "all is whole";
    EXPECT_EQ(value, 2);
  });
}

TEST(SendRecv, MeetCollectivesAndEmptyOnesInOneGroup) {
  run_ranks(3, [](int rank, ncclComm_t comm) {
    const int right = (rank + 1) % 3;
    const int left = (rank + 2) % 3;
    int mine = rank;
    int theirs = -1;
    int sum = rank;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclSend(&mine, 1, ncclInt32, right, comm, nullptr), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(&sum, &sum, 1, ncclInt32, ncclSum, comm, nullptr), ncclSuccess);
    ASSERT_EQ(ncclSend(nullptr, 0, ncclInt32, left, comm, nullptr), ncclSuccess);
    ASSERT_EQ(ncclRecv(&theirs, 1, ncclInt32, left, comm, nullptr), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << failure();
    EXPECT_EQ(theirs, left);
    EXPECT_EQ(sum, 3);
  });
}

// Communicators that are made meanwhile give up after this.
class Timeout {
 public:
  explicit Timeout(const char* seconds) : before_(getenv(kName)) { setenv(kName, seconds, 1); }
  ~Timeout() { setenv(kName, before_.c_str(), 1); }

 private:
  static constexpr const char* kName = "STEPGATE_HOSTNCCL_TIMEOUT";
  std::string before_;
};

TEST(SendRecvFailures, RecvThatNobodySendsToEndsAtTheDeadline) {
  const Timeout timeout("1");
  const std::vector<ncclComm_t> comms = make_clique(2);
  int value = static_cast<int>(kPairUntouched);
  EXPECT_EQ(ncclRecv(&value, 1, ncclInt32, 1, comms[0], nullptr), ncclRemoteError);
  EXPECT_NE(failure().find("rank 1"), std::string::npos) << failure();
  EXPECT_EQ(value, 1);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

TEST(SendRecvFailures, AnotherCountThanThePeersBreaksTheCommunicatorOfBoth) {
  for (const std::size_t sent : {std::size_t{1}, std::size_t{500'000}}) {
    const std::vector<ncclComm_t> comms = make_clique(2);
    in_threads(2, [&](int rank) {
      std::vector<int> data(500'000);
      const ncclResult_t result = rank == 0 ? ncclSend(data.data(), sent, ncclInt32, 1, comms[0], nullptr)
                                            : ncclRecv(data.data(), 1000, ncclInt32, 0, comms[1], nullptr);
      if (rank == 1) {
        EXPECT_EQ(result, ncclSystemError) << failure();
        EXPECT_NE(failure().find("not the expected 4000 bytes"), std::string::npos) << failure();
      }
      EXPECT_NE(ncclAllReduce(data.data(), data.data(), 1, ncclInt32, ncclSum,
                              comms[static_cast<std::size_t>(rank)], nullptr),
                ncclSuccess)
          << "both are told";
    });
    for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
}

}  // namespace
}  // namespace stepgate::hostnccl::test

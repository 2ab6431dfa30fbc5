// Every collective of the built library against a scalar reference: 1 to 8 ranks, all types and
// operators, in place and apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "tests/collectives/hostnccl/ranks.h"
#include "tests/collectives/hostnccl/reference.h"
#include "tests/collectives/hostnccl/typed_buffer.h"

namespace stepgate::hostnccl::test {
namespace {

// One element, an odd few, and enough for a ring of eight to have chunks that do not divide evenly.
constexpr std::size_t kCounts[] = {1, 13, 20011};
constexpr double kNobodyWroteThis = 64;  // which every type holds

class Collectives : public testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Range(1, 9));

template <typename Body>
void for_all_reductions(Body body) {
  for (const ncclDataType_t type : kTypes) {
    for (const ncclRedOp_t op : kOps) {
      for (const std::size_t count : kCounts) body(type, op, count);
    }
  }
}

TEST_P(Collectives, AllReduce) {
  run_ranks(size(), [&](int rank, ncclComm_t comm) {
    for_all_reductions([&](ncclDataType_t type, ncclRedOp_t op, std::size_t count) {
      TypedBuffer in(type, count);
      TypedBuffer out(type, count);
      fill(&in, 0, count, type, op, rank);
      ASSERT_EQ(ncclAllReduce(in.data(), out.data(), count, type, op, comm, nullptr), ncclSuccess)
          << failure();
      expect_reduced(out, 0, count, type, op, size());
      ASSERT_EQ(ncclAllReduce(in.data(), in.data(), count, type, op, comm, nullptr), ncclSuccess)
          << failure();
      expect_reduced(in, 0, count, type, op, size());
    });
  });
}

TEST_P(Collectives, ReduceScatter) {
  const auto ranks = static_cast<std::size_t>(size());
  run_ranks(size(), [&](int rank, ncclComm_t comm) {
    const auto place = static_cast<std::size_t>(rank);
    for_all_reductions([&](ncclDataType_t type, ncclRedOp_t op, std::size_t count) {
      TypedBuffer in(type, count * ranks);
      TypedBuffer out(type, count);
      fill(&in, 0, count * ranks, type, op, rank);
      ASSERT_EQ(ncclReduceScatter(in.data(), out.data(), count, type, op, comm, nullptr), ncclSuccess)
          << failure();
      expect_reduced(out, 0, count, type, op, size(), place * count);
      ASSERT_EQ(ncclReduceScatter(in.data(), in.at(place * count), count, type, op, comm, nullptr),
                ncclSuccess)
          << failure();
      expect_reduced(in, place * count, count, type, op, size(), place * count);
    });
  });
}

TEST_P(Collectives, AllGather) {
  const auto ranks = static_cast<std::size_t>(size());
  run_ranks(size(), [&](int rank, ncclComm_t comm) {
    for (const ncclDataType_t type : kTypes) {
      for (const std::size_t count : kCounts) {
        const auto place = static_cast<std::size_t>(rank) * count;
        TypedBuffer in(type, count);
        TypedBuffer apart(type, count * ranks);
        TypedBuffer in_place(type, count * ranks);
        fill(&in, 0, count, type, ncclSum, rank);
        fill(&in_place, place, count, type, ncclSum, rank);
        ASSERT_EQ(ncclAllGather(in.data(), apart.data(), count, type, comm, nullptr), ncclSuccess)
            << failure();
        ASSERT_EQ(ncclAllGather(in_place.at(place), in_place.data(), count, type, comm, nullptr), ncclSuccess)
            << failure();
        for (std::size_t i = 0; i < count * ranks; ++i) {
          const double want = sample(type, ncclSum, static_cast<int>(i / count), i % count);
          ASSERT_EQ(apart.get(i), want) << "type " << type << " count " << count << " element " << i;
          ASSERT_EQ(in_place.get(i), want) << "type " << type << " count " << count << " element " << i;
        }
      }
    }
  });
}

TEST_P(Collectives, BroadcastFromEveryRoot) {
  run_ranks(size(), [&](int rank, ncclComm_t comm) {
    for (const ncclDataType_t type : kTypes) {
      for (const std::size_t count : kCounts) {
        for (int root = 0; root < size(); ++root) {
          TypedBuffer in(type, count);
          TypedBuffer out(type, count);
          TypedBuffer both(type, count);
          fill(&in, 0, count, type, ncclSum, rank);
          fill(&both, 0, count, type, ncclSum, rank);
          const void* send = rank == root ? in.data() : nullptr;
          ASSERT_EQ(ncclBroadcast(send, out.data(), count, type, root, comm, nullptr), ncclSuccess)
              << failure();
          ASSERT_EQ(ncclBcast(both.data(), count, type, root, comm, nullptr), ncclSuccess) << failure();
          for (std::size_t i = 0; i < count; ++i) {
            const double want = sample(type, ncclSum, root, i);
            ASSERT_EQ(out.get(i), want) << "type " << type << " root " << root << " element " << i;
            ASSERT_EQ(both.get(i), want) << "type " << type << " root " << root << " element " << i;
          }
        }
      }
    }
  });
}

TEST_P(Collectives, ReduceToEveryRootLeavesTheOthersAlone) {
  run_ranks(size(), [&](int rank, ncclComm_t comm) {
    for_all_reductions([&](ncclDataType_t type, ncclRedOp_t op, std::size_t count) {
      for (int root = 0; root < size(); root += 3) {
        TypedBuffer in(type, count);
        TypedBuffer out(type, count);
        fill(&in, 0, count, type, op, rank);
        for (std::size_t i = 0; i < count; ++i) out.set(i, kNobodyWroteThis);
        ASSERT_EQ(ncclReduce(in.data(), out.data(), count, type, op, root, comm, nullptr), ncclSuccess)
            << failure();
        if (rank == root) {
          expect_reduced(out, 0, count, type, op, size());
        } else {
          ASSERT_EQ(out.get(count - 1), kNobodyWroteThis);
        }
      }
    });
  });
}

TEST_P(Collectives, AnyStreamIsAcceptedAndCountZeroNeedsNoPeer) {
  run_ranks(size(), [&](int rank, ncclComm_t comm) {
    float value = 1;
    auto* stream = reinterpret_cast<cudaStream_t>(std::uintptr_t{0xdead});
    ASSERT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, stream), ncclSuccess) << failure();
    EXPECT_EQ(value, static_cast<float>(size()));
    if (rank != 0) return;
    EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess);
    EXPECT_EQ(ncclBcast(nullptr, 0, ncclFloat32, 0, comm, nullptr), ncclSuccess);
  });
}

}  // namespace
}  // namespace stepgate::hostnccl::test

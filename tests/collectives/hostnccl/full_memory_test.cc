// Each allocation of a call fails once: the call says so, and the thread's group is as it was. The ABI's
// functions are compiled into this program, whose operator new they take.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "collectives/nccl_abi/nccl_structs.h"
#include "tests/collectives/hostnccl/ranks.h"

namespace {

std::atomic<int> allocations_left{-1};  // -1: any number
std::atomic<bool> refused{false};

}  // namespace

void* operator new(std::size_t bytes) {
  int left = allocations_left;
  while (left > 0 && !allocations_left.compare_exchange_weak(left, left - 1)) {
  }
  void* memory = left == 0 ? nullptr : std::malloc(bytes != 0 ? bytes : 1);
  if (memory == nullptr) {
    refused = true;
    throw std::bad_alloc();
  }
  return memory;
}
// Not inlined: gcc would take the free for a mismatch.
__attribute__((noinline)) void operator delete(void* memory) noexcept {
  std::free(memory);
}
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace stepgate::hostnccl::test {
namespace {

// With the first, the second, ... allocation of it failing, until it needs no more. `check` looks at each
// failure.
template <typename Call, typename Check>
void fail_each_allocation(const Call& call, const Check& check) {
  constexpr int kMost = 1000;
  for (int i = 0; i < kMost; ++i) {
    refused = false;
    allocations_left = i;
    const ncclResult_t result = call();
    allocations_left = -1;
    if (!refused) {
      EXPECT_EQ(result, ncclSuccess) << failure();
      EXPECT_GT(i, 0) << "it allocates nothing";
      return;
    }
    SCOPED_TRACE("allocation " + std::to_string(i));
    check(result);
    if (testing::Test::HasFailure()) return;
  }
  FAIL() << "more than " << kMost << " allocations";
}

TEST(FullMemory, CommInitAllLeavesNoGroupOpen) {
  ncclComm_t comm = nullptr;
  fail_each_allocation([&] { return ncclCommInitAll(&comm, 1, nullptr); },
                       [&](ncclResult_t result) {
                         EXPECT_EQ(result, ncclSystemError) << failure();
                         EXPECT_EQ(comm, nullptr);
                         EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << "its group is still open";
                       });
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << failure();
}

TEST(FullMemory, ACollectiveInAGroupMakesAllOfItFail) {
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitAll(&comm, 1, nullptr), ncclSuccess) << failure();
  const int from = 7;
  int to = 0, other = 0;
  const auto sum = [&](int* result) {
    return ncclAllReduce(&from, result, 1, ncclInt32, ncclSum, comm, nullptr);
  };
  const auto in_a_group = [&] {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    const int left = allocations_left.exchange(-1);
    EXPECT_EQ(sum(&other), ncclSuccess) << failure();
    allocations_left = left;
    const ncclResult_t result = sum(&to);
    if (result != ncclSuccess) return result;
    allocations_left.exchange(1000);  // what the end needs is another matter
    return ncclGroupEnd();
  };
  fail_each_allocation(in_a_group, [&](ncclResult_t result) {
    EXPECT_EQ(result, ncclSystemError) << failure();
    EXPECT_EQ(ncclGroupEnd(), ncclSystemError) << failure();
    EXPECT_EQ(other, 0) << "started without the one that failed";
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << "the depth is 0 again";
  });
  EXPECT_EQ(to, 7);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << failure();
}

// Without a handle it is all the program ever has: a second try must be able to end it.
TEST(FullMemory, AGroupThatInitializesLeavesNothingBehind) {
  ncclComm_t comm = nullptr;
  ncclUniqueId id = {};
  const auto init = [&] {
    ++id.internal[0];  // each serves once
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    const ncclResult_t result = ncclCommInitRank(&comm, 1, id, 0);
    const ncclResult_t end = ncclGroupEnd();
    EXPECT_TRUE(result == ncclSuccess || end == result) << "init " << result << ", end " << end;
    return end;
  };
  fail_each_allocation(init, [&](ncclResult_t result) {
    EXPECT_EQ(result, ncclSystemError) << failure();
    EXPECT_EQ(comm, nullptr);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << "the depth is 0 again";
  });
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << failure();
}

}  // namespace
}  // namespace stepgate::hostnccl::test

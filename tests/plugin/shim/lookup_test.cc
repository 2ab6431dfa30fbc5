// Looking up whose code called takes microseconds. This program's dladdr1 comes before the C library's, so it
// sees how often the plugin asks.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>

#include "collectives/nccl_abi/nccl_abi.h"

namespace {

std::atomic<int> asked{0};

}  // namespace

extern "C" __attribute__((visibility("default"))) int dladdr1(const void* address, Dl_info* info,
                                                              void** extra, int flags) {
  using Function = int(const void*, Dl_info*, void**, int);
  static auto* const real = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "dladdr1"));
  ++asked;
  return real(address, info, extra, flags);
}

namespace stepgate::test {
namespace {

TEST(Lookup, ACallSiteIsLookedUpOnce) {
  int first = 0;
  for (int i = 0; i < 100; ++i) {
    ncclComm_t comm = nullptr;
    ncclUniqueId id{};
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
    ASSERT_EQ(ncclCommDestroy(comm), ncclSuccess);
    if (i == 0) first = asked;
  }
  EXPECT_GT(first, 0) << "this program's dladdr1 is not the one that is asked";
  EXPECT_EQ(asked, first);
}

// A reduction's functions come with its communicator.
TEST(Lookup, ACallOnACommunicatorNeedsNone) {
  ncclComm_t comm = nullptr;
  ncclUniqueId id{};
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
  const int before = asked;
  float value = 1;
  ASSERT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess);
  EXPECT_EQ(asked, before);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

}  // namespace
}  // namespace stepgate::test

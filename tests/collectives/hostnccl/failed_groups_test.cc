// Groups that came to nothing, or not to all: what they leave of the communicators in them.
#include <gtest/gtest.h>

#include "tests/collectives/hostnccl/lifecycle.h"
#include "tests/collectives/hostnccl/scarce_threads.h"

namespace stepgate::hostnccl::test {
namespace {

TEST(FailedGroups, WithoutAThreadForEachNoCommunicatorComesAbout) {
  const ncclUniqueId id = new_id();
  ncclComm_t comms[2] = {}, handles[2] = {};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(ncclCommInitRank(&comms[i], 2, id, i), ncclSuccess) << failure();
    handles[i] = comms[i];
  }
  {
    const ScarceThreads scarce(1);
    EXPECT_EQ(ncclGroupEnd(), ncclSystemError);
  }
  EXPECT_NE(failure().find("no thread can be had"), std::string::npos) << failure();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(comms[i], nullptr);
    EXPECT_EQ(ncclCommDestroy(handles[i]), ncclInvalidArgument) << "it has gone, and does not hang";
  }
}

TEST(FailedGroups, InitAllWithoutThreadsGivesNoHandle) {
  ncclComm_t comms[2] = {kUntouched, kUntouched};
  {
    const ncclUniqueId warm_up = new_id();  // what the transport starts once is there
    (void)warm_up;
    const ScarceThreads scarce(1);
    EXPECT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSystemError);
  }
  EXPECT_EQ(comms[0], nullptr);
  EXPECT_EQ(comms[1], nullptr);
  ASSERT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess) << failure();
  end_all({comms[0], comms[1]});
}

TEST(FailedGroups, AnEndWithoutAThreadEndsAllTheSame) {
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, 1, new_id(), 0), ncclSuccess) << failure();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclCommDestroy(comm), ncclSuccess) << failure();
  const ScarceThreads scarce(0);
  EXPECT_EQ(ncclGroupEnd(), ncclSystemError);
  EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument) << "the handle is dead";
}

// Neither finalized nor closed to a revocation.
TEST(FailedGroups, AFinalizeThatARefusedGroupHeldIsTakenBack) {
  for (const bool revokes : {false, true}) {
    ncclComm_t comm = nullptr, bad = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, 1, new_id(), 0), ncclSuccess) << failure();
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclCommFinalize(comm), ncclSuccess) << failure();
    EXPECT_EQ(ncclCommInitRank(&bad, 2, new_id(), 2), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    if (revokes) {
      EXPECT_EQ(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclSuccess) << failure();
    } else {
      EXPECT_EQ(ncclCommFinalize(comm), ncclSuccess) << failure();
      EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidArgument) << "that one ran";
    }
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << failure();
  }
}

TEST(FailedGroups, AFinalizeThatFoundNoThreadIsTakenBack) {
  const ncclComm_t comm = make_non_blocking_clique(1)[0];
  {
    const ScarceThreads scarce(0);
    EXPECT_EQ(ncclCommFinalize(comm), ncclSystemError);
  }
  EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress) << failure();
  EXPECT_EQ(settled(comm), ncclSuccess) << failure();
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << failure();
}

}  // namespace
}  // namespace stepgate::hostnccl::test

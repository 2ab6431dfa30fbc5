// Communicator, Flight and Group over a scripted transport.
#include "collectives/hostnccl/communicator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "collectives/hostnccl/flight.h"
#include "collectives/hostnccl/group.h"
#include "tests/collectives/hostnccl/fake_transport.h"

namespace stepgate::hostnccl {
namespace {

using test::FakeTransport;
using Log = std::vector<std::string>;

std::shared_ptr<Communicator> make(FakeTransport* fake, int rank = 0, int size = 2) {
  std::shared_ptr<Communicator> comm;
  const Outcome outcome = Communicator::create(fake->table(), fake->id(), rank, size, Config{}, &comm);
  EXPECT_TRUE(outcome.ok()) << outcome.message;
  return comm;
}

float source[64];
float target[64];

Request allreduce(std::size_t count) {
  return {Collective::kAllReduce, source, target, count, ncclFloat32, ncclSum, 0};
}

Request broadcast_from(int root) {
  return {Collective::kBroadcast, source, target, 1, ncclFloat32, ncclSum, root};
}

template <typename Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(Communicator, HandsItsSettingsToTheTransport) {
  FakeTransport fake;
  std::shared_ptr<Communicator> comm;
  const Config config{2.5, "tcp"};
  ASSERT_TRUE(Communicator::create(fake.table(), fake.id(), 1, 3, config, &comm).ok());
  EXPECT_EQ(comm->rank(), 1);
  EXPECT_EQ(comm->size(), 3);
  EXPECT_EQ(fake.log(), Log{"create 1/3 tcp 2.5"});
}

TEST(Communicator, CreationThatFailsSaysWhoAndWhy) {
  FakeTransport fake;
  fake.create_answer = SGT_TIMEOUT;
  fake.culprit = 1;
  fake.message = "never arrived";
  std::shared_ptr<Communicator> comm;
  const Outcome outcome = Communicator::create(fake.table(), fake.id(), 0, 2, Config{}, &comm);
  EXPECT_EQ(outcome.code, ncclRemoteError);
  EXPECT_EQ(
      outcome.message,
      "ncclCommInitRank: rank 0 of 2: deadline reached (STEPGATE_HOSTNCCL_TIMEOUT): rank 1 (never arrived)");
  EXPECT_EQ(comm, nullptr);
}

struct Translation {
  sgt_status status;
  bool aborted_here;
  ncclResult_t code;
};

TEST(Communicator, TranslatesEveryStatus) {
  constexpr Translation kTable[] = {{SGT_OK, false, ncclSuccess},
                                    {SGT_IN_PROGRESS, false, ncclInProgress},
                                    {SGT_INVALID, false, ncclInvalidArgument},
                                    {SGT_TIMEOUT, false, ncclRemoteError},
                                    {SGT_PEER_DEAD, false, ncclRemoteError},
                                    {SGT_ABORTED, false, ncclRemoteError},
                                    {SGT_ABORTED, true, ncclInternalError},
                                    {SGT_SYSTEM, false, ncclSystemError},
                                    {SGT_FORKED, false, ncclInvalidUsage},
                                    {SGT_VERSION, false, ncclSystemError}};
  const sgt_error error = {SGT_OK, 5, "details"};
  for (const Translation& row : kTable) {
    const Outcome outcome = translate_status(row.status, error, row.aborted_here);
    EXPECT_EQ(outcome.code, row.code) << row.status;
    const bool plain = row.status == SGT_OK || row.status == SGT_IN_PROGRESS;
    EXPECT_EQ(outcome.message.find("rank 5 (details)") != std::string::npos, !plain) << outcome.message;
  }
}

TEST(Communicator, DeadPeerBreaksItAndItCanStillBeDestroyed) {
  FakeTransport fake;
  fake.final_answers = {SGT_PEER_DEAD};
  fake.culprit = 1;
  const auto comm = make(&fake);
  const Outcome first = fly({{comm, allreduce(4)}});
  EXPECT_EQ(first.code, ncclRemoteError);
  EXPECT_NE(first.message.find("rank 1"), std::string::npos) << first.message;
  EXPECT_EQ(comm->status().code, ncclRemoteError);
  EXPECT_EQ(fly({{comm, allreduce(4)}}).code, ncclRemoteError);
  EXPECT_EQ(fake.log(), (Log{"create 0/2 auto 600", "allreduce 4", "wait"}))
      << "a broken world is left alone";
  EXPECT_TRUE(comm->destroy().ok());
  EXPECT_FALSE(fake.reached("barrier")) << "nobody would come to a broken world's barrier";
  EXPECT_TRUE(fake.reached("destroy"));
  EXPECT_EQ(fake.ops_held(), 0);
}

TEST(Communicator, StatusAsksTheTransportToo) {
  FakeTransport fake;
  const auto comm = make(&fake);
  EXPECT_TRUE(comm->status().ok());
  fake.world_answer = SGT_PEER_DEAD;
  EXPECT_EQ(comm->status().code, ncclRemoteError);
  fake.world_answer = SGT_OK;
  EXPECT_EQ(comm->status().code, ncclRemoteError) << "the first error stays";
}

TEST(Communicator, RefusedArgumentLeavesItWhole) {
  FakeTransport fake;
  fake.start_answers = {SGT_INVALID};
  const auto comm = make(&fake);
  EXPECT_EQ(fly({{comm, allreduce(4)}}).code, ncclInvalidArgument);
  EXPECT_TRUE(comm->status().ok());
  EXPECT_TRUE(fly({{comm, allreduce(4)}}).ok());
}

TEST(Communicator, AbortFromAnotherThreadEndsABlockedCall) {
  FakeTransport fake;
  fake.wait_blocks_until_abort = true;
  const auto comm = make(&fake);
  Outcome outcome;
  std::thread blocked([&] { outcome = fly({{comm, allreduce(4)}}); });
  EXPECT_TRUE(eventually([&] { return fake.reached("wait"); }));
  comm->abort();
  EXPECT_TRUE(comm->destroy().ok());
  blocked.join();
  EXPECT_EQ(outcome.code, ncclInternalError);
  EXPECT_NE(outcome.message.find("by this rank"), std::string::npos) << outcome.message;
  EXPECT_EQ(fly({{comm, allreduce(4)}}).code, ncclInvalidArgument) << "destroyed";
}

TEST(Communicator, AbortReachesADestroyThatWaitsForItsPeers) {
  FakeTransport fake;
  fake.wait_blocks_until_abort = true;
  const auto comm = make(&fake);
  Outcome outcome;
  std::thread blocked([&] { outcome = comm->destroy(); });
  EXPECT_TRUE(eventually([&] { return fake.reached("wait"); }));
  comm->abort();
  blocked.join();
  EXPECT_TRUE(outcome.ok()) << outcome.message;
  EXPECT_TRUE(fake.reached("destroy"));
}

TEST(Communicator, FinalizedTakesNoMoreOperations) {
  FakeTransport fake;
  const auto comm = make(&fake);
  EXPECT_TRUE(comm->finalize().ok());
  EXPECT_TRUE(comm->finalize().ok());
  EXPECT_EQ(fly({{comm, allreduce(4)}}).code, ncclInvalidUsage);
  EXPECT_TRUE(comm->destroy().ok());
  EXPECT_EQ(comm->destroy().code, ncclInvalidArgument);
  EXPECT_EQ(fake.log(), (Log{"create 0/2 auto 600", "barrier", "wait", "destroy"}));
}

TEST(Communicator, OneRankCopiesWithoutATransport) {
  std::shared_ptr<Communicator> comm;
  ASSERT_TRUE(Communicator::create(nullptr, ncclUniqueId{}, 0, 1, Config{}, &comm).ok());
  std::iota(source, source + 64, 1.0F);
  std::fill(target, target + 64, 0.0F);
  ASSERT_TRUE(fly({{comm, allreduce(64)}}).ok());
  EXPECT_TRUE(std::equal(source, source + 64, target));
  EXPECT_TRUE(fly({{comm, {Collective::kReduce, source, source, 64, ncclFloat32, ncclAvg, 0}}}).ok());
  EXPECT_TRUE(comm->finalize().ok());
  EXPECT_TRUE(comm->destroy().ok());
}

TEST(Communicator, CountZeroReachesNobody) {
  FakeTransport fake;
  const auto comm = make(&fake);
  EXPECT_TRUE(fly({{comm, allreduce(0)}}).ok());
  EXPECT_EQ(fake.log(), Log{"create 0/2 auto 600"});
}

TEST(Communicator, ReceiversOfABroadcastLendTheirOwnBuffer) {
  FakeTransport fake;
  const auto comm = make(&fake, 1);
  EXPECT_TRUE(fly({{comm, broadcast_from(0)}}).ok());
  EXPECT_TRUE(fly({{comm, broadcast_from(1)}}).ok());
  EXPECT_TRUE(fake.reached("broadcast 1 from 0 in place"));
  EXPECT_TRUE(fake.reached("broadcast 1 from 1"));
}

TEST(Flight, StartsAllInOrderBeforeItWaits) {
  FakeTransport fake;
  fake.rounds_in_progress = 1000;
  const auto comm = make(&fake);
  EXPECT_TRUE(fly({{comm, allreduce(1)}, {comm, allreduce(2)}, {comm, allreduce(3)}}).ok());
  const Log log = fake.log();
  ASSERT_GE(log.size(), 4u);
  EXPECT_EQ(Log(log.begin() + 1, log.begin() + 4), (Log{"allreduce 1", "allreduce 2", "allreduce 3"}));
}

TEST(Flight, SeveralCommunicatorsNeverSleepOnOne) {
  FakeTransport left;
  FakeTransport right;
  left.rounds_in_progress = right.rounds_in_progress = 3000;
  const auto a = make(&left);
  const auto b = make(&right);
  EXPECT_TRUE(fly({{a, allreduce(1)}, {b, allreduce(2)}, {a, allreduce(3)}}).ok());
  EXPECT_FALSE(left.reached("wait"));
  EXPECT_FALSE(right.reached("wait"));
}

TEST(Flight, FailureOfOneCommunicatorLetsTheOtherFinish) {
  FakeTransport left;
  FakeTransport right;
  left.start_answers = {SGT_OK, SGT_PEER_DEAD};
  const auto a = make(&left);
  const auto b = make(&right);
  const Outcome outcome = fly({{a, allreduce(1)}, {a, allreduce(2)}, {b, allreduce(3)}, {a, allreduce(4)}});
  EXPECT_EQ(outcome.code, ncclRemoteError);
  EXPECT_FALSE(left.reached("allreduce 4")) << "nothing starts behind a failure on the same communicator";
  EXPECT_TRUE(right.reached("allreduce 3"));
  EXPECT_TRUE(b->status().ok());
  EXPECT_EQ(left.ops_held() + right.ops_held(), 0);
}

TEST(Flight, NothingStartsBehindARefusedOperation) {
  FakeTransport fake;
  fake.start_answers = {SGT_OK, SGT_INVALID};
  const auto comm = make(&fake);
  EXPECT_EQ(fly({{comm, allreduce(1)}, {comm, allreduce(2)}, {comm, allreduce(3)}}).code,
            ncclInvalidArgument);
  EXPECT_FALSE(fake.reached("allreduce 3")) << "the peers would pair it with the refused one";
  EXPECT_TRUE(comm->status().ok());
  EXPECT_EQ(fake.ops_held(), 0);
}

TEST(Group, QueuesUntilTheOutermostEnd) {
  FakeTransport fake;
  const auto comm = make(&fake);
  Group group;
  group.begin();
  group.begin();
  EXPECT_TRUE(group.submit({comm, allreduce(1)}).ok());
  EXPECT_TRUE(group.end().ok());
  EXPECT_FALSE(fake.reached("allreduce 1"));
  EXPECT_TRUE(group.end().ok());
  EXPECT_TRUE(fake.reached("allreduce 1"));
  EXPECT_FALSE(group.open());
}

TEST(Group, EndWithoutBeginIsRefused) {
  Group group;
  EXPECT_EQ(group.end().code, ncclInvalidUsage);
  group.begin();
  EXPECT_TRUE(group.end().ok());
}

TEST(Group, PoisonedGroupStartsNothingAndRecovers) {
  FakeTransport fake;
  const auto comm = make(&fake);
  Group group;
  group.begin();
  EXPECT_TRUE(group.submit({comm, allreduce(1)}).ok());
  group.poison(invalid_argument("first"));
  group.poison(invalid_usage("second"));
  const Outcome outcome = group.end();
  EXPECT_EQ(outcome.code, ncclInvalidArgument);
  EXPECT_EQ(outcome.message, "first");
  EXPECT_FALSE(fake.reached("allreduce 1"));
  EXPECT_TRUE(group.submit({comm, allreduce(2)}).ok()) << "the group is closed again";
  EXPECT_TRUE(fake.reached("allreduce 2"));
  group.begin();
  EXPECT_TRUE(group.submit({comm, allreduce(3)}).ok());
  EXPECT_TRUE(group.end().ok()) << "the old error is forgotten";
  EXPECT_TRUE(fake.reached("allreduce 3"));
}

TEST(Group, FailingOperationIsReturnedAndTheDepthIsReset) {
  FakeTransport fake;
  fake.final_answers = {SGT_OK, SGT_TIMEOUT};
  const auto comm = make(&fake);
  Group group;
  group.begin();
  EXPECT_TRUE(group.submit({comm, allreduce(1)}).ok());
  EXPECT_TRUE(group.submit({comm, allreduce(2)}).ok());
  EXPECT_EQ(group.end().code, ncclRemoteError);
  EXPECT_FALSE(group.open());
  EXPECT_EQ(group.end().code, ncclInvalidUsage);
}

}  // namespace
}  // namespace stepgate::hostnccl

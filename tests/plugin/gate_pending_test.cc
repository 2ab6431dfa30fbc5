// Calls that a helper thread of NCCL launches later, and who asks for them.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "plugin/core/pending_calls.h"
#include "tests/plugin/fake_world.h"

namespace stepgate::test {
namespace {

using gate::PendingCalls;

ncclComm_t comm_of(int i) {
  static char comms[2];
  return reinterpret_cast<ncclComm_t>(&comms[i]);
}

Reduction call_on(int comm, std::size_t count) {
  return {OpKind::kAllReduce, ncclFloat32, ncclSum, 0, nullptr, nullptr, count, 2, comm_of(comm), nullptr};
}

TEST(PendingCalls, AreTakenOldestFirstByTheThreadThatMadeThem) {
  PendingCalls calls;
  EXPECT_TRUE(calls.none());
  EXPECT_EQ(calls.first(), nullptr);
  calls.hold(call_on(1, 1));
  std::thread([&] { calls.hold(call_on(0, 2)); }).join();
  calls.hold(call_on(0, 3));
  calls.hold(call_on(0, 4));
  EXPECT_FALSE(calls.none());
  EXPECT_EQ(calls.first(), comm_of(1));
  std::thread([&] { EXPECT_FALSE(calls.mine(comm_of(1))); }).join();
  Reduction op;
  EXPECT_TRUE(calls.mine(comm_of(0)));
  ASSERT_TRUE(calls.take_mine(comm_of(0), &op));
  EXPECT_EQ(op.count, 3u);
  ASSERT_TRUE(calls.take_mine(comm_of(0), &op));
  EXPECT_EQ(op.count, 4u);
  EXPECT_FALSE(calls.take_mine(comm_of(0), &op));
  EXPECT_FALSE(calls.mine(comm_of(0)));
  ASSERT_TRUE(calls.take(comm_of(0), &op)) << "what another thread left";
  EXPECT_EQ(op.count, 2u);
  EXPECT_EQ(calls.forget(comm_of(0)), 0u);
  EXPECT_EQ(calls.forget(comm_of(1)), 1u);
  EXPECT_TRUE(calls.none());
  calls.hold(call_on(1, 5));
  calls.clear();
  EXPECT_TRUE(calls.none());
}

void begin_with_shard(Rank& r) {
  r.declare("shard", {&r.shard});
  ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
  r.begin();
}

Reduction of_shard(Rank& r) {
  return {OpKind::kAllReduce, ncclFloat32,    ncclSum, 0,        r.shard.data(),
          r.shard.data(),     r.shard.size(), 1,       r.comm(), nullptr};
}

// A watchdog asks a communicator for its state while a hook is stuck in a launch, in a full queue say, and
// holds the gate. It has nothing there, whoever else has.
TEST(GatePending, WhoHasNothingThereWaitsForNobody) {
  World world({.ranks = 1});
  Rank& r = world.rank(0);
  begin_with_shard(r);
  std::promise<void> launching, done;
  r.device().at_scan([&] {
    launching.set_value();
    done.get_future().wait();
  });
  std::thread stuck([&] {
    r.gate().after(of_shard(r), stepgate::Outcome::kPending);
    r.gate().settled(r.comm());
  });
  launching.get_future().wait();
  auto watchdog = std::async(std::launch::async, [&] { r.gate().settled(r.comm()); });
  EXPECT_EQ(watchdog.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  done.set_value();
  stuck.join();
  watchdog.wait();
  r.device().at_scan(nullptr);
  EXPECT_EQ(r.gate().counters().reductions_scanned[0], 1u);
  EXPECT_TRUE(r.end().applies());
}

// The same launch is stuck because a peer has died: its end is the abort that this thread comes from. The
// pointer is forgotten all the same, before it can mean another communicator.
TEST(GatePending, AnAbortWaitsForNoLaunch) {
  World world({.ranks = 1});
  Rank& r = world.rank(0);
  begin_with_shard(r);
  std::promise<void> launching, aborted;
  auto abort_returns = aborted.get_future();
  bool in_time = false;
  r.device().at_scan([&] {
    launching.set_value();
    in_time = abort_returns.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  });
  std::thread stuck([&] { r.gate().after(of_shard(r), stepgate::Outcome::kLaunched); });
  launching.get_future().wait();
  r.gate().comm_retired(r.comm());
  aborted.set_value();
  stuck.join();
  r.device().at_scan(nullptr);
  EXPECT_TRUE(in_time) << "the abort waited for the launch, which only it can end";
  EXPECT_FALSE(r.end().applies());
  EXPECT_EQ(r.gate().remove_group(r.comm()), STEPGATE_INVALID) << "it is in the list no more";
}

}  // namespace
}  // namespace stepgate::test

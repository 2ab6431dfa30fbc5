// Ranks that are killed or stopped in the middle of a collective, as processes: the survivors end by
// their deadline with the right rank's name, and nobody hangs.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <tuple>

#include "collectives/ucx/deadline.h"
#include "tests/collectives/ucx/processes.h"

namespace stepgate::transport::testing {
namespace {

using Case = std::tuple<const char*, const char*, int>;  // transports, what the ranks do, who is hit

class ProcessDeath : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr int kSize = 4;
  const char* transports() const { return std::get<0>(GetParam()); }
  const char* what() const { return std::get<1>(GetParam()); }
  int victim() const { return std::get<2>(GetParam()); }

  // All ranks are in the middle of things.
  Processes start(double timeout) const {
    Processes ranks = start_ranks(kSize, {transports(), timeout}, what());
    for (auto& rank : ranks) EXPECT_EQ(rank->line(), "ready");
    return ranks;
  }
  void expect_survivors(Processes& ranks, sgt_status status) const {
    for (int rank = 0; rank < kSize; ++rank) {
      if (rank == victim()) continue;
      Process& survivor = *ranks[static_cast<size_t>(rank)];
      const Said said = last_words(survivor, 30);
      EXPECT_EQ(said.status, status) << "rank " << rank << ": " << said.message;
      EXPECT_EQ(said.culprit, victim()) << "rank " << rank << ": " << said.message;
      EXPECT_EQ(survivor.wait(30), 0) << "rank " << rank << " did not end cleanly";
    }
  }
};

std::string case_name(const ::testing::TestParamInfo<Case>& tested) {
  const auto& [transports, what, victim] = tested.param;
  return std::string(transports) + "_" + what + "_rank" + std::to_string(victim);
}

INSTANTIATE_TEST_SUITE_P(All, ProcessDeath,
                         ::testing::Combine(::testing::Values("tcp", "shm"),
                                            ::testing::Values("sum", "small"), ::testing::Values(0, 2)),
                         case_name);

TEST_P(ProcessDeath, AKilledRankIsNamedByAllSurvivors) {
  Processes ranks = start(60);
  ranks[static_cast<size_t>(victim())]->signal(SIGKILL);
  expect_survivors(ranks, SGT_PEER_DEAD);
}

TEST_P(ProcessDeath, AStoppedRankIsNamedAtTheDeadline) {
  Processes ranks = start(2);
  ranks[static_cast<size_t>(victim())]->signal(SIGSTOP);
  expect_survivors(ranks, SGT_TIMEOUT);
}

TEST(ProcessWorld, RanksAsProcessesEndCleanly) {
  for (const char* transports : {"tcp", "shm", "auto"}) {
    Processes ranks = start_ranks(4, {transports, 60}, "once");
    for (auto& rank : ranks) {
      EXPECT_EQ(last_words(*rank).status, SGT_OK);
      EXPECT_EQ(rank->wait(), 0);
    }
  }
}

// And with them what it may read, and who may read it: long all-reduces go another way.
TEST(ProcessWorld, ARankThatDropsItsRightsGoesOn) {
  Processes ranks = start_ranks(3, {"shm", 30}, "drop");
  for (auto& rank : ranks) {
    const Said said = last_words(*rank);
    EXPECT_EQ(said.status, SGT_OK) << said.message;
    EXPECT_EQ(rank->wait(), 0);
  }
}

// The coordinator's own process dies: everybody else loses the control channel at once.
TEST(ProcessWorld, TheDeathOfTheRankThatKeepsTheControlChannelIsNamed) {
  for (const char* transports : {"tcp", "shm"}) {
    Process keeper({STEPGATE_RANK_PROCESS, "new", "0", "3", transports, "60", "sum"});
    const std::string hex = keeper.line();
    Process one({STEPGATE_RANK_PROCESS, hex, "1", "3", transports, "60", "sum"});
    Process two({STEPGATE_RANK_PROCESS, hex, "2", "3", transports, "60", "sum"});
    for (Process* rank : {&keeper, &one, &two}) ASSERT_EQ(rank->line(), "ready");
    keeper.signal(SIGKILL);
    for (Process* rank : {&one, &two}) {
      const Said said = last_words(*rank, 30);
      EXPECT_EQ(said.status, SGT_PEER_DEAD) << said.message;
      EXPECT_EQ(said.culprit, 0) << said.message;
      EXPECT_EQ(rank->wait(30), 0);
    }
  }
}

// Its child keeps the sockets open, so no connection closes; UCX's look at the process finds out.
TEST(ProcessWorld, ADeadRankWhoseChildLivesOnIsNamedOverSharedMemory) {
  Processes ranks = start_ranks(3, {"shm", 60}, "parent");
  for (auto& rank : ranks) ASSERT_EQ(rank->line(), "ready");
  ranks[1]->signal(SIGKILL);
  EXPECT_NE(ranks[1]->wait(30), -1);  // as a launcher reaps it: to UCX a zombie is alive
  for (const size_t survivor : {size_t{0}, size_t{2}}) {
    const Said said = last_words(*ranks[survivor], 15);
    EXPECT_EQ(said.status, SGT_PEER_DEAD) << said.message;
    EXPECT_EQ(said.culprit, 1) << said.message;
    EXPECT_EQ(ranks[survivor]->wait(30), 0);
  }
}

// A rank of one process, with the others here: it dies while this one computes and asks for nothing.
TEST(ProcessWorld, AStatusCallNoticesADeathOutsideOfOperations) {
  const sgt_unique_id id = new_id();
  Process other({STEPGATE_RANK_PROCESS, to_hex(id), "1", "2", "shm", "60", "idle"});
  sgt_world* world = nullptr;
  const Outcome made = create(id, 0, 2, {"shm", 60}, &world);
  ASSERT_EQ(made.status, SGT_OK) << made.error.message;
  ASSERT_EQ(other.line(), "ready");
  other.signal(SIGKILL);
  sgt_error error{};
  const Deadline deadline = Deadline::after(30);
  while (transport().world_status(world, &error) == SGT_OK && !deadline.passed()) usleep(1000);
  EXPECT_EQ(error.status, SGT_PEER_DEAD);
  EXPECT_EQ(error.culprit, 1);
  transport().world_destroy(world);
}

}  // namespace
}  // namespace stepgate::transport::testing

// A process that is in a world forks: the child gets SGT_FORKED from everything, touches nothing, and
// exits cleanly, static destructors included, while the parent's world goes on.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "tests/collectives/ucx/ranks.h"

namespace stepgate::transport::testing {
namespace {

struct Destroy {
  void operator()(sgt_world* world) const { transport().world_destroy(world); }
};

// As a job might hold it: destroyed by exit(), in the child as in the parent.
std::unique_ptr<sgt_world, Destroy>& held() {
  static std::unique_ptr<sgt_world, Destroy> world;
  return world;
}

int count_refusals(Rank& rank, const sgt_unique_id& id, sgt_op* inherited) {
  int refusals = 0;
  float value = 1;
  sgt_error error{};
  sgt_unique_id fresh;
  sgt_world* world = nullptr;
  refusals += rank.barrier().status == SGT_FORKED;
  refusals += rank.allreduce(&value, &value, 1, SGT_FLOAT32, SGT_SUM).status == SGT_FORKED;
  refusals += transport().op_progress(inherited, &error) == SGT_FORKED;
  refusals += transport().op_wait(inherited, &error) == SGT_FORKED;
  refusals += transport().world_status(rank.world, &error) == SGT_FORKED;
  refusals += transport().unique_id(&fresh, &error) == SGT_FORKED;
  refusals += create(id, 0, 1, {}, &world).status == SGT_FORKED;
  transport().op_release(inherited);
  transport().world_abort(rank.world);
  transport().world_destroy(rank.world);
  return refusals;
}

// The leak checker at exit() takes what only the parent's other threads refer to for leaked, so that under
// it a child of a thread leaves without exit handlers.
[[noreturn]] void leave(int status, bool from_main_thread) {
#if defined(__SANITIZE_ADDRESS__)
  if (!from_main_thread) _exit(status);
#endif
  static_cast<void>(from_main_thread);
  std::exit(status);
}

// Forks, runs `body` in the child, and gives what waitpid says. The child leaves through exit().
int status_of_child(const std::function<int()>& body) {
  const bool main_thread = getpid() == gettid();
  const pid_t child = fork();
  if (child == 0) leave(body(), main_thread);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(Fork, TheChildIsRefusedAndExitsCleanlyAndTheParentGoesOn) {
  const sgt_unique_id id = new_id();
  Rank rank{0, 1};
  ASSERT_EQ(create(id, 0, 1, {"shm", 30}, &rank.world).status, SGT_OK);
  held().reset(rank.world);
  sgt_op* op = nullptr;
  sgt_error error{};
  ASSERT_EQ(transport().barrier(rank.world, &op, &error), SGT_OK);
  const int status = status_of_child([&] { return count_refusals(rank, id, op) == 7 ? 0 : 1; });
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(transport().op_wait(op, &error), SGT_OK) << error.message;
  transport().op_release(op);
  EXPECT_EQ(rank.barrier().status, SGT_OK);
  held().reset();
}

TEST(Fork, WorldsOfSeveralRanksSurviveAChildThatExits) {
  for (const char* transports : {"tcp", "shm"})
    run_ranks(3, {transports, 30}, [](Rank& rank) {
      for (int i = 0; i < 3; ++i) {
        const auto in_child = [&] { return rank.barrier().status == SGT_FORKED ? 0 : 1; };
        ASSERT_EQ(rank.rank == 1 ? status_of_child(in_child) : 0, 0);
        float value = 1;
        const Outcome outcome = rank.allreduce(&value, &value, 1, SGT_FLOAT32, SGT_SUM);
        ASSERT_EQ(outcome.status, SGT_OK) << outcome.error.message;
        ASSERT_EQ(value, 3.0f);
      }
    });
}

}  // namespace
}  // namespace stepgate::transport::testing

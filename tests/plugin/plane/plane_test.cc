// Planes with their threads: two ranks in one process, over a made-up transport.
#include "plugin/core/plane/plane.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <functional>

#include "tests/plugin/plane/fake_pairs.h"

namespace stepgate::plane {
namespace {

using namespace std::chrono_literals;

const gate::Log kQuiet(gate::LogLevel::kOff, 0);

PlaneOptions options(int rank, std::uint16_t port, const test::FakePairs& fake) {
  PlaneOptions o;
  o.seat = {rank, 2, "run", "127.0.0.1", port, 10};
  o.transport = [&fake](std::string*) { return &fake.table(); };
  return o;
}

std::uint16_t free_port() {
  return RendezvousServer("127.0.0.1", 0, "", 2).port();
}

bool soon(const std::function<bool()>& holds) {
  for (int i = 0; i < 2000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

bool up(Plane& plane, int rank) {
  metrics::JobView view;
  plane.board().read(&view);
  return view.ranks[static_cast<std::size_t>(rank)].up;
}

TEST(Plane, TwoRanksMeetAndPart) {
  test::FakePairs fake;
  const std::uint16_t port = free_port();
  Plane zero(options(0, port, fake), kQuiet), one(options(1, port, fake), kQuiet);
  EXPECT_TRUE(zero.leads());
  EXPECT_FALSE(one.leads());
  one.start();  // before rank 0 is there
  zero.start();
  EXPECT_TRUE(soon([&] { return up(zero, 0) && up(zero, 1); }));
  EXPECT_TRUE(one.stop(20));
  EXPECT_TRUE(soon([&] { return !up(zero, 1); })) << "it said goodbye";
  EXPECT_TRUE(zero.stop(20));
  EXPECT_EQ(fake.worlds(), 0);
}

// A connection that does not answer takes that long to close: the exit outlasts it, for a thread that is left
// behind runs into the exit's destructors.
TEST(Plane, TheExitOutlastsALinkThatClosesSlowly) {
  test::FakePairs fake;
  const std::uint16_t port = free_port();
  Plane zero(options(0, port, fake), kQuiet), one(options(1, port, fake), kQuiet);
  zero.start();
  one.start();
  EXPECT_TRUE(soon([&] { return up(zero, 1); }));
  fake.close_slowly(2);
  EXPECT_TRUE(zero.stop(kStopSeconds));
  EXPECT_TRUE(one.stop(20));
}

TEST(Plane, StopWithoutStartAndTwice) {
  test::FakePairs fake;
  Plane plane(options(0, 1, fake), kQuiet);
  EXPECT_TRUE(plane.stop(0));
  EXPECT_TRUE(plane.stop(0));
}

TEST(Plane, WithoutATransportItEnds) {
  test::FakePairs fake;
  PlaneOptions o = options(0, free_port(), fake);
  o.transport = [](std::string* error) {
    *error = "none here";
    return static_cast<const sgt_table*>(nullptr);
  };
  Plane plane(std::move(o), kQuiet);
  plane.start();
  EXPECT_TRUE(plane.stop(20));
}

// The run before this one still holds the port: rank 0 waits for it, in its own thread.
TEST(Plane, ATakenPortIsWaitedForAndStoppedIn) {
  test::FakePairs fake;
  const RendezvousServer before("127.0.0.1", 0, "older", 2);
  Plane plane(options(0, before.port(), fake), kQuiet);
  plane.start();
  std::this_thread::sleep_for(50ms);
  EXPECT_TRUE(plane.stop(20));
}

// A thread in a wait that nobody can end is left alone: the job's exit does not wait for it. What it may
// still touch is never destroyed, as in a process's exit; a vector with a destructor would hide it from a
// leak checker.
TEST(Plane, StopGivesUpAtItsDeadline) {
  struct Wait {
    std::mutex mutex;
    std::condition_variable changed;
    bool released = false;
  };
  static auto* const wait = new Wait;
  test::FakePairs fake;
  PlaneOptions o = options(1, 1, fake);
  o.transport = [](std::string*) -> const sgt_table* {
    std::unique_lock lock(wait->mutex);
    wait->changed.wait(lock, [] { return wait->released; });
    return nullptr;
  };
  static auto* const plane = new Plane(std::move(o), kQuiet);
  plane->start();
  EXPECT_FALSE(plane->stop(0.05));
  const std::lock_guard lock(wait->mutex);
  wait->released = true;
  wait->changed.notify_all();
}

TEST(Plane, AChildForgetsIt) {
  test::FakePairs fake;
  Plane zero(options(0, free_port(), fake), kQuiet);
  zero.start();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(zero.stop(100) ? 1 : 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(soon([&] { return up(zero, 0); })) << "the parent's goes on";
  EXPECT_TRUE(zero.stop(20));
}

}  // namespace
}  // namespace stepgate::plane

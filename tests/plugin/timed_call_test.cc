// A call with a deadline: in time, too late, and what its thread does with the job's signals.
#include "plugin/core/timed_call.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <future>
#include <memory>
#include <system_error>
#include <thread>

namespace stepgate::gate {
namespace {

using namespace std::chrono_literals;

TEST(TimedCall, ReturnsWithTheCall) {
  bool called = false;
  EXPECT_TRUE(run_with_deadline([&] { called = true; }, 100s));
  EXPECT_TRUE(called);
}

TEST(TimedCall, LeavesTheCallBehindAtItsDeadline) {
  const auto release = std::make_shared<std::promise<void>>();
  const auto over = std::make_shared<std::promise<void>>();
  auto ended = over->get_future();
  EXPECT_FALSE(run_with_deadline(
      [gate = release->get_future().share(), over] {
        gate.wait();
        over->set_value();
      },
      10ms));
  release->set_value();
  EXPECT_EQ(ended.wait_for(100s), std::future_status::ready) << "the call goes on";
}

// A process at its limit of threads. The others wait in the exchange: it must not stay away.
TEST(TimedCall, IsMadeWithoutAThreadWhereNoneCanBeHad) {
  pthread_attr_t before, greedy;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_attr_init(&greedy), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&greedy, std::size_t{1} << 46), 0);
  ASSERT_EQ(pthread_setattr_default_np(&greedy), 0);
  bool refused = false;
  try {
    std::thread([] {}).join();
  } catch (const std::system_error&) {
    refused = true;
  }
  const pthread_t mine = pthread_self();
  pthread_t by{};
  EXPECT_TRUE(run_with_deadline([&] { by = pthread_self(); }, 100s));
  ASSERT_EQ(pthread_setattr_default_np(&before), 0);
  pthread_attr_destroy(&greedy);
  EXPECT_TRUE(refused) << "a thread of 64 TiB could be had";
  EXPECT_TRUE(pthread_equal(by, mine));
}

TEST(TimedCall, ItsThreadTakesFaultsAlone) {
  sigset_t mask;
  sigemptyset(&mask);
  ASSERT_TRUE(run_with_deadline([&] { pthread_sigmask(SIG_SETMASK, nullptr, &mask); }, 100s));
  EXPECT_EQ(sigismember(&mask, SIGTERM), 1);
  EXPECT_EQ(sigismember(&mask, SIGSEGV), 0) << "the job's crash handler must have its say";
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGTERM), 0) << "the caller's own mask is as it was";
}

}  // namespace
}  // namespace stepgate::gate

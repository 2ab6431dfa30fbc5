// Tasks of a group: each runs or is forgotten, whatever fails.
#include "collectives/hostnccl/task.h"

#include <gtest/gtest.h>

#include "collectives/hostnccl/job.h"
#include "tests/collectives/hostnccl/scarce_threads.h"

namespace stepgate::hostnccl {
namespace {

using test::ScarceThreads;

std::shared_ptr<Communicator> alone(bool blocking = true) {
  Config config;
  config.blocking = blocking;
  return Communicator::make(nullptr, 0, 1, config);
}

// What became of some tasks, by their names.
struct Record {
  std::mutex mutex;
  std::vector<std::string> ran, forgotten;

  Task task(const std::shared_ptr<Communicator>& comm, const std::string& name, const Outcome& outcome = {}) {
    const auto run = [this, name, outcome] {
      const std::lock_guard lock(mutex);
      ran.push_back(name);
      return outcome;
    };
    const auto forget = [this, name] {
      const std::lock_guard lock(mutex);
      forgotten.push_back(name);
    };
    return {comm, comm->blocking(), run, forget};
  }
};

using Names = std::vector<std::string>;
const Outcome kLost{ncclRemoteError, "a peer is gone"};

TEST(Tasks, BehindAFailureTheRestOfThatCommunicatorsIsForgotten) {
  Record record;
  const auto broken = alone(), whole = alone();
  const Outcome o = run_all(
      {record.task(broken, "finalize", kLost), record.task(broken, "destroy"), record.task(whole, "other")});
  EXPECT_EQ(o.code, ncclRemoteError);
  std::sort(record.ran.begin(), record.ran.end());
  EXPECT_EQ(record.ran, (Names{"finalize", "other"}));
  EXPECT_EQ(record.forgotten, Names{"destroy"});
}

TEST(Tasks, WhatIsThrownIsAFailureToo) {
  Record record;
  const auto comm = alone();
  const Task thrower{comm, true, []() -> Outcome { throw std::bad_alloc(); }};
  const Outcome o = run_all({thrower, record.task(comm, "destroy")});
  EXPECT_EQ(o.code, ncclSystemError);
  EXPECT_EQ(o.message, "out of memory");
  EXPECT_EQ(record.forgotten, Names{"destroy"});
}

// The first line has its thread: its peers would wait for one that has none.
TEST(Tasks, WithoutAThreadForEachCommunicatorNothingRunsAndAllIsForgotten) {
  Record record;
  const std::vector<Task> tasks = {record.task(alone(), "a"), record.task(alone(), "b")};
  Outcome o;
  {
    const ScarceThreads scarce(1);
    o = run_all(tasks);
  }
  EXPECT_EQ(o.code, ncclSystemError);
  EXPECT_NE(o.message.find("no thread can be had"), std::string::npos) << o.message;
  EXPECT_EQ(record.ran, Names{});
  EXPECT_EQ(record.forgotten, (Names{"a", "b"}));
}

TEST(Tasks, AGroupThatDoesNotBlockAndHasNoThreadIsForgotten) {
  Record record;
  const auto comm = alone(false);
  Outcome o;
  {
    const ScarceThreads scarce(0);
    o = launch_group({record.task(comm, "connect")}, {}, false);
  }
  EXPECT_EQ(o.code, ncclSystemError);
  EXPECT_EQ(record.ran, Names{});
  EXPECT_EQ(record.forgotten, Names{"connect"});
  EXPECT_TRUE(comm->status().ok()) << "no longer in progress";
}

// The call has returned by then, and the program holds the handle.
TEST(Tasks, AGroupThatDoesNotBlockAndFindsNoThreadLaterBreaksItsCommunicators) {
  Record record;
  const auto comm = alone(false), other = alone(false);
  {
    const ScarceThreads scarce(2);  // the group's own, and one of the two
    ASSERT_EQ(launch_group({record.task(comm, "a"), record.task(other, "b")}, {}, false).code,
              ncclInProgress);
    comm->wait_for_job();
  }
  EXPECT_EQ(record.ran, Names{});
  EXPECT_EQ(comm->status().code, ncclSystemError);
  EXPECT_EQ(other->status().code, ncclSystemError);
}

TEST(Tasks, ACallThatDoesNotBlockAndHasNoThreadIsForgotten) {
  Record record;
  const auto comm = alone(false);
  {
    const ScarceThreads scarce(0);
    EXPECT_EQ(run_now(record.task(comm, "finalize")).code, ncclSystemError);
  }
  EXPECT_EQ(record.forgotten, Names{"finalize"});
  EXPECT_TRUE(comm->status().ok()) << "no longer in progress";
}

}  // namespace
}  // namespace stepgate::hostnccl

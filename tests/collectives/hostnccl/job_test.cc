// A piece of work in a thread of its own: done after the work, and none of the job's signals in it.
#include "collectives/hostnccl/job.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <memory>

namespace stepgate::hostnccl {
namespace {

TEST(Job, IsDoneOnceItsWorkIs) {
  const auto job = std::make_shared<Job>();
  EXPECT_FALSE(job->done());
  bool worked = false;
  ASSERT_TRUE(job->start([&] { worked = true; }).ok());
  job->wait();
  EXPECT_TRUE(job->done());
  EXPECT_TRUE(worked);
}

TEST(Job, ItsThreadTakesFaultsAlone) {
  Job job;
  sigset_t mask;
  sigemptyset(&mask);
  ASSERT_TRUE(job.start([&] { pthread_sigmask(SIG_SETMASK, nullptr, &mask); }).ok());
  job.wait();
  EXPECT_EQ(sigismember(&mask, SIGTERM), 1);
  EXPECT_EQ(sigismember(&mask, SIGSEGV), 0) << "the job's crash handler must have its say";
}

}  // namespace
}  // namespace stepgate::hostnccl

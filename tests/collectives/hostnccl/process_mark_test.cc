// A forked child, and a child of that, know that they are not the process that made the mark.
#include "collectives/hostnccl/process_mark.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace stepgate::hostnccl {
namespace {

int status_of(pid_t child) {
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(ProcessMark, TellsAProcessFromItsChildren) {
  const ProcessMark mark;
  EXPECT_TRUE(mark.here());
  EXPECT_EQ(mark.process(), getpid());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const pid_t grandchild = mark.here() ? -1 : fork();
    if (grandchild == 0) _exit(mark.here() ? 1 : 0);
    int status = 1;
    if (grandchild > 0) waitpid(grandchild, &status, 0);
    _exit(mark.here() || status != 0 ? 1 : 0);
  }
  EXPECT_EQ(status_of(child), 0);
  EXPECT_TRUE(mark.here());
}

}  // namespace
}  // namespace stepgate::hostnccl

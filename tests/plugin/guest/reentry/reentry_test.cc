// What the shim tells the core, word by word: over an NCCL that enters the hooks from inside, and around
// groups that launch nothing or only a part.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/integration/process.h"

namespace stepgate::test {
namespace {

namespace fs = std::filesystem;

// The shim with a core beside it that prints what it is told.
std::string told(const std::string& mode) {
  const TemporaryFolder folder;
  fs::copy_file(STEPGATE_TEST_LIB "/libstepgate.so", folder.file("libstepgate.so"));
  fs::copy_file(REENTRY_TEST_CORE, folder.file("libstepgate_core.so"));
  const std::string runtime = REENTRY_TEST_RUNTIME;
  const Outcome o =
      run({REENTRY_TEST_JOB, mode},
          {{"LD_PRELOAD", (runtime.empty() ? "" : runtime + " ") + folder.file("libstepgate.so")}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_EQ(o.err, "");
  return o.out;
}

TEST(Reentry, AHookEnteredFromInsideNcclOnlyForwards) {
  EXPECT_EQ(told("reduce"), "created\nbefore 1\nafter 1 outcome 0\n");
  EXPECT_EQ(told("bcast"), "created\nafter 3 outcome 0\n");
}

TEST(Reentry, AGroupIsToldAtItsEnd) {
  EXPECT_EQ(told("grouped"), "created\nbefore 0\nend\nafter 0 outcome 0\n");
  EXPECT_EQ(told("moved"), "created\nend\nafter 3 outcome 0\n");
}

TEST(Reentry, ASimulatedGroupIsNothing) {
  EXPECT_EQ(told("simulated"), "created\nbefore 0\n");
}

// Without a place for the estimate, or on communicators that do not block, NCCL launches.
TEST(Reentry, ASimulatedGroupThatLaunchesIsTold) {
  EXPECT_EQ(told("unnamed"), "created\nbefore 0\nafter 0 outcome 0\n");
  EXPECT_EQ(told("launching"), "created\nbefore 0\nafter 0 outcome 1\n");
}

// NCCL's own threads ask for the state of what comes about or goes, when the hooks have seen both.
TEST(Reentry, ACommunicatorThatComesLaterOrGoesIsNotMissed) {
  EXPECT_EQ(told("ended"), "created\n");
  EXPECT_EQ(told("late"), "");
  EXPECT_EQ(told("past"), "warn hooks missed (unhooked):\n");
}

TEST(Reentry, AFailedGroupIsDropped) {
  EXPECT_EQ(told("failed"), "created\nbefore 0\nend\nafter 0 outcome 2\nafter 3 outcome 2\n");
}

}  // namespace
}  // namespace stepgate::test

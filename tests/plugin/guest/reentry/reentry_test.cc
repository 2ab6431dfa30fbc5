// What the shim tells the core, word by word: over an NCCL that enters the hooks from inside, and around
// groups that launch nothing or only a part.
#include <gtest/gtest.h>

#include <algorithm>
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
  // Memory that was given back is overwritten, and goes back to the heap at once.
  const Outcome o =
      run({REENTRY_TEST_JOB, mode},
          {{"LD_PRELOAD", (runtime.empty() ? "" : runtime + " ") + folder.file("libstepgate.so")},
           {"MALLOC_PERTURB_", "165"},
           {"GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_EQ(o.err, "");
  return o.out;
}

TEST(Reentry, AHookEnteredFromInsideNcclOnlyForwards) {
  EXPECT_EQ(told("reduce"), "created\nbefore 1\nafter 1 outcome 0\n");
  EXPECT_EQ(told("bcast"), "created\nafter 3 outcome 0\n");
}

TEST(Reentry, AGroupIsToldAtItsEnd) {
  EXPECT_EQ(told("grouped"), "created\nend\nbefore 0\nafter 0 outcome 0\n");
  EXPECT_EQ(told("moved"), "created\nend\nafter 3 outcome 0\n");
}

TEST(Reentry, ASimulatedGroupIsNothing) {
  EXPECT_EQ(told("simulated"), "created\n") << "not even what it would have sent is read";
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

TEST(Reentry, CommunicatorsOfAListAreToldWithTheirDevices) {
  EXPECT_EQ(told("all"), "created on 0\ncreated on 1\n");
  EXPECT_EQ(told("listed"), "created on 5\ncreated on 3\n");
}

TEST(Reentry, AFailedGroupIsDropped) {
  EXPECT_EQ(told("failed"), "created\nend\nbefore 0\nafter 0 outcome 2\nafter 3 outcome 2\n");
}

std::string times(int count, const std::string& line) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line;
  return text;
}

std::string group_of(int count) {
  return times(count, "before 0\n") + times(count, "after 0 outcome 0\n");
}

// exit() takes a thread's objects away before it runs the handlers, which may reduce, and end a group.
TEST(Reentry, GroupsInAHandlerAtExit) {
  EXPECT_EQ(told("exit"),
            "created\n" + group_of(8) + "handler\n" + group_of(3) + group_of(8) + group_of(100));
}

// A job whose ncclGroupEnd is looked up on the library's handle: the shim's group never ends. What it keeps
// is bounded; then it is said, and hooks leave the reading to the step's end.
TEST(Reentry, AGroupThatEndsPastTheHooks) {
  const int kept = 65536;
  const std::string wanted = "created\n" + times(kept, "after 3 outcome 1\n") +
                             "warn hooks missed (unhooked):\nafter 3 outcome 1\n" +
                             times(70000 - kept - 1, "before 0\nafter 0 outcome 1\n");
  const std::string found = told("unended");
  const std::size_t at =
      std::mismatch(wanted.begin(), wanted.end(), found.begin(), found.end()).first - wanted.begin();
  EXPECT_TRUE(found == wanted) << "from " << at << ": " << found.substr(at, 200);
}

}  // namespace
}  // namespace stepgate::test

// Guest manners: what a process of the job notices of the plugin in it. Nothing, but for what it asked.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "collectives/nccl_abi/nccl_abi.h"
#include "stepgate/stepgate.h"
#include "tests/plugin/guest/preloaded.h"

namespace stepgate::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_with(const Outcome& o, const std::string& start) {
  std::vector<std::string> found;
  for (const std::string& line : lines_of(o.out)) {
    if (line.starts_with(start)) found.push_back(line);
  }
  return found;
}

bool says(const Outcome& o, const std::string& part) {
  return o.out.find(part) != std::string::npos;
}

// ---- the state of a process ----------------------------------------------------------------------

// "called NAME RESULT" in what a rank printed: the results of each name's calls.
std::map<std::string, std::set<int>> called(const Outcome& o) {
  std::map<std::string, std::set<int>> names;
  for (const std::string& line : lines_with(o, "called ")) {
    const std::size_t space = line.rfind(' ');
    names[line.substr(7, space - 7)].insert(std::stoi(line.substr(space + 1)));
  }
  return names;
}

// What a call may return that does not succeed.
using Results = std::map<std::string, int>;
const Results kDeciding = {{"apply", STEPGATE_INVALID},  // unscale is deferred
                           {"external_scale", STEPGATE_INVALID}};
const Results kObserved = {{"step_begin", STEPGATE_INACTIVE}, {"veto", STEPGATE_INACTIVE},
                           {"step_end", STEPGATE_INACTIVE},   {"enforce_end", STEPGATE_INACTIVE},
                           {"step_wait", STEPGATE_INVALID},  // no step has ended
                           {"apply", STEPGATE_INVALID}};

std::set<std::string> hooked_functions() {
  const Outcome o = run({"nm", "-D", "--defined-only", STEPGATE_TEST_LIB "/libstepgate.so"});
  std::set<std::string> names;
  for (const std::string& line : lines_of(o.out)) {
    const std::string name = line.substr(line.rfind(' ') + 1);
    if (name.starts_with("nccl")) names.insert(name);
  }
  return names;
}

// Signal dispositions and masks, SIGPIPE, the environment, MXCSR and the x87 word, limits, names: before
// and after start-up, and before and after every function that the shim hooks.
void expect_no_call_changes(const Variables& variables, const Results& unsuccessful) {
  const std::set<std::string> hooks = hooked_functions();
  EXPECT_EQ(hooks.size(), 27u) << "their names stand in tests/repo/objects_test.cc";
  const std::vector<Outcome> outcomes = run_guest("calls", 2, variables);
  for (const Outcome& o : outcomes) {
    EXPECT_EQ(o.status, 0) << o.out << o.err;
    const auto changed = lines_with(o, "changed ");
    EXPECT_TRUE(changed.empty()) << changed.size() << " changes, the first: " << changed.front();
    const auto names = called(o);
    for (const std::string& hook : hooks) EXPECT_TRUE(names.contains(hook)) << hook << " was not called";
    for (const char* more : {"start-up", "step_begin", "step_end", "apply", "observe", "gate_destroy"}) {
      EXPECT_TRUE(names.contains(more)) << more;
    }
    for (const auto& [name, results] : names) {
      const auto other = unsuccessful.find(name);
      int want = other == unsuccessful.end() ? 0 : other->second;
      if (name == "ncclCommShrink" && &o == &outcomes.back()) want = ncclInvalidArgument;  // it is left out
      EXPECT_EQ(results, std::set<int>{want}) << name << (&o == &outcomes.back() ? ", rank 1" : ", rank 0");
    }
  }
}

TEST(Manners, NoCallChangesTheProcess) {
  expect_no_call_changes(guest_variables(), kDeciding);
}

TEST(MannersObserved, NoCallChangesTheProcess) {
  expect_no_call_changes(observed_variables(), kObserved);
}

TEST(MannersOnThePlane, NoCallChangesTheProcess) {
  expect_no_call_changes(plane_variables(), kDeciding);
}

// The same test sees a change: where nobody made them before, UCX's settings are the host NCCL's doing. They
// are all that it changes, so UCX takes no signal.
TEST(Manners, TheHostNcclChangesItsFiveVariablesAlone) {
  Variables variables = guest_variables();
  for (const auto& [name, value] : guest_variables()) {
    if (name.starts_with("UCX_")) variables.erase(name);
  }
  const Outcome o = run_guest("calls", 1, variables)[0];
  const auto changed = lines_with(o, "changed ");
  EXPECT_EQ(changed.size(), 5u) << o.out << o.err;
  for (const std::string& line : changed) {
    EXPECT_TRUE(line.starts_with("changed by nccl, first of all: new: environment UCX_")) << line;
  }
}

// ---- children ------------------------------------------------------------------------------------

// Two ranks with endpoints over shared memory, a page, a gate. What a child writes into memory shared
// with its parent, and every call on a socket, event set or file, would kill it.
void expect_children_keep_away(const Variables& variables) {
  for (const Outcome& o : run_guest("fork", 2, variables)) {
    EXPECT_EQ(o.status, 0) << o.out << o.err;
    EXPECT_EQ(lines_with(o, "child ").size(), 6u) << o.out;
    for (const std::string& line : lines_with(o, "child "))
      EXPECT_TRUE(line.ends_with(" 0")) << line << o.err;
    EXPECT_TRUE(says(o, "parent goes on")) << o.out << o.err;
  }
}

TEST(Manners, ForkedChildrenNeverTouchTheirParent) {
  expect_children_keep_away(guest_variables());
}

TEST(Manners, ForkedChildrenNeverTouchTheirParentOverTcp) {
  expect_children_keep_away(with(guest_variables(), {{"STEPGATE_HOSTNCCL_TRANSPORT", "tcp"}}));
}

TEST(MannersObserved, ForkedChildrenNeverTouchTheirParent) {
  expect_children_keep_away(observed_variables());
}

TEST(MannersOnThePlane, ForkedChildrenNeverTouchTheirParent) {
  expect_children_keep_away(plane_variables());
}

// With the gate on a device: streams, mapped rings and tables are the stand-in driver's.
TEST(Manners, ForkedChildrenNeverTouchTheirParentsDevice) {
  expect_children_keep_away(with(guest_variables(), {{"GUEST_DEVICE", "cuda"},
                                                     {"STEPGATE_DEVICE", "cuda"},
                                                     {"LD_LIBRARY_PATH", STEPGATE_TEST_LIB "/standin_cuda"},
                                                     {"STEPGATE_STANDIN_GUARD", "1"}}));
}

// ---- the end of a process ------------------------------------------------------------------------

void expect_handlers_in_order(const Variables& variables, int world) {
  for (const Outcome& o : run_guest("exit_order", world, variables)) {
    EXPECT_EQ(o.status, 7) << o.err;
    const std::string sum = std::to_string(3 * world), last = std::to_string(2 * world);
    EXPECT_EQ(o.out, "late handler, scraped 1\nearly handler, page '', " + sum + "\nstatic destructor, " +
                         last + "\n")
        << o.err;
  }
}

TEST(Manners, HandlersAtExitRunInTheirOrderAndCallsStillAnswer) {
  expect_handlers_in_order(guest_variables(), 1);
}

TEST(MannersObserved, HandlersAtExitRunInTheirOrderAndCallsStillAnswer) {
  expect_handlers_in_order(observed_variables(), 1);
}

TEST(MannersOnThePlane, HandlersAtExitRunInTheirOrderAndCallsStillAnswer) {
  expect_handlers_in_order(plane_variables(), 2);
}

// exit() takes a thread's objects away before it runs the handlers; what is given back is overwritten here.
TEST(Manners, CallsThatFailAnswerUntilTheEnd) {
  const Outcome o =
      run_guest("refused_exit", 1,
                with(guest_variables(),
                     {{"MALLOC_PERTURB_", "165"}, {"GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"}}))[0];
  EXPECT_EQ(o.status, 7) << o.out << o.err;
  EXPECT_EQ(o.out, "refused: 1\nhandler: invalid: stepgate_enforce_end: gate is NULL\nstatic destructor, 2\n")
      << o.err;
}

// A stalled network file system costs the job its files there, and its end the two seconds that it waits.
TEST(Manners, AHungMetricsFolderHoldsUpNobody) {
  const TemporaryFolder folder;
  const Outcome o = run_guest("hung_files", 1,
                              with(guest_variables(), {{"STEPGATE_METRICS_FILE_SD_DIR", folder.file("")},
                                                       {"GUEST_HUNG_FOLDER", folder.file("")}}))[0];
  EXPECT_EQ(o.status, 7) << o.out << o.err;
  EXPECT_EQ(o.out, "goes on\n") << o.err;
}

void expect_quiet_exits(const Variables& variables) {
  for (int i = 0; i < 5; ++i) {
    const Outcome o = run_guest("busy_exit", 1, with(variables, {{"STEPGATE_LOG", "off"}}))[0];
    EXPECT_EQ(o.status, 7) << o.out << o.err;
    EXPECT_EQ(o.out + o.err, "");
  }
}

TEST(Manners, ExitWhileOtherThreadsAreInHooksAndSteps) {
  expect_quiet_exits(guest_variables());
}

TEST(MannersObserved, ExitWhileOtherThreadsAreInHooks) {
  expect_quiet_exits(observed_variables());
}

void expect_signals_to_end(int world, const std::function<Variables()>& variables) {
  for (const int number : {SIGTERM, SIGINT, SIGPIPE, SIGUSR1, SIGSEGV, SIGALRM}) {
    GuestJob job("wait", world, variables());
    for (int i = 0; i < world; ++i) ASSERT_TRUE(job.rank(i).wait_for("ready\n"));
    for (int i = 0; i < world; ++i) kill(job.rank(i).pid(), number);
    for (const Outcome& o : job.finish()) EXPECT_EQ(o.status, 128 + number);
  }
}

TEST(Manners, SignalsEndAJobAsTheyWould) {
  expect_signals_to_end(1, guest_variables);
}

TEST(MannersObserved, SignalsEndAJobAsTheyWould) {
  expect_signals_to_end(1, observed_variables);
}

TEST(MannersOnThePlane, SignalsEndAJobAsTheyWould) {
  expect_signals_to_end(2, plane_variables);
}

// ---- whose process it is -------------------------------------------------------------------------

TEST(Manners, EmptyEnvironment) {
  const Outcome o = run({"env", "-i", "LD_PRELOAD=" + preload(), GUEST_TEST_BARE});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_TRUE(says(o, "shim 1\ncore 0\nucx 0\nnccl 0\n")) << o.out;
  TemporaryFolder folder;
  const Outcome job = run(
      {"env", "-i", "LD_PRELOAD=" + preload(), GUEST_TEST_WORKER, "busy_exit", folder.file(""), "0", "1"});
  EXPECT_EQ(job.status, 7) << job.out << job.err;
}

TEST(Manners, RootJobThatDropsItsRights) {
  if (geteuid() != 0) GTEST_SKIP() << "only root has rights to drop";
  for (const Variables& variables : {guest_variables(), observed_variables(), plane_variables()}) {
    const int world = variables.contains("STEPGATE_PLANE") ? 2 : 1;
    for (const Outcome& o : run_guest("setuid", world, variables)) {
      EXPECT_EQ(o.status, 0) << o.out << o.err;
      EXPECT_TRUE(says(o, "goes on as 65534")) << o.out;
    }
  }
}

// ld.so takes no preload with a path into a set-user-ID program: such a program runs without us.
TEST(Manners, SetUserIdProgramRunsWithoutThePlugin) {
  const TemporaryFolder folder;
  struct statvfs where {};
  ASSERT_EQ(statvfs(folder.file("").c_str(), &where), 0);
  if (geteuid() != 0 || (where.f_flag & ST_NOSUID) != 0) {
    GTEST_SKIP() << "needs root, and temporary files that may carry the set-user-ID bit";
  }
  const std::string program = folder.file("bare");
  fs::copy_file(GUEST_TEST_BARE, program);
  ASSERT_EQ(chown(program.c_str(), 65534, 65534), 0);
  ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  fs::permissions(folder.file(""), fs::perms::others_exec | fs::perms::others_read, fs::perm_options::add);
  const Outcome o = run({program}, {{"LD_PRELOAD", preload()}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_TRUE(says(o, "shim 0\ncore 0\n")) << o.out;
}

}  // namespace
}  // namespace stepgate::test

// libstepgate.so in LD_PRELOAD of programs: of one that knows nothing of it, of jobs that use NCCL in
// every way the resolution order has to find, and where something of the plugin is missing or wrong.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/integration/process.h"

namespace stepgate::test {
namespace {

const std::string kShim = STEPGATE_TEST_LIB "/libstepgate.so";

// A sanitizer's runtime must come before the objects that were built for it.
std::string preload(const std::string& library) {
  const std::string runtime = SHIM_TEST_RUNTIME;
  return runtime.empty() ? library : runtime + " " + library;
}

using Variables = std::map<std::string, std::string>;

Outcome run_preloaded(const std::vector<std::string>& words, Variables variables = {},
                      const std::string& library = kShim) {
  variables.emplace("LD_PRELOAD", preload(library));
  variables.emplace("STEPGATE_MODE", "enforce");
  variables.emplace("STEPGATE_METRICS", "off");
  variables.emplace("STEPGATE_HOSTNCCL_TIMEOUT", "40");
  return run(words, variables);
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

void expect_says(const Outcome& o, const std::string& part) {
  EXPECT_NE(o.out.find(part), std::string::npos) << o.out << o.err;
}

// The figures of a program without the plugin; under a sanitizer they hold its own thread.
std::string figure(const Outcome& o, const std::string& name) {
  for (const std::string& line : lines_of(o.out)) {
    if (line.starts_with(name + " ")) return line;
  }
  ADD_FAILURE() << "no " << name << " in: " << o.out << o.err;
  return "";
}

void expect_inert(const Outcome& with, const Outcome& without) {
  EXPECT_EQ(with.status, 0) << with.out << with.err;
  EXPECT_EQ(figure(with, "shim"), "shim 1") << "the preload did not work";
  EXPECT_EQ(figure(without, "shim"), "shim 0");
  EXPECT_EQ(figure(with, "threads"), figure(without, "threads"));
  EXPECT_EQ(figure(with, "descriptors"), figure(without, "descriptors"));
  for (const char* object : {"core", "ucx", "nccl"}) {
    EXPECT_EQ(figure(with, object), std::string(object) + " 0");
  }
}

Outcome run_without(const std::vector<std::string>& words) {
  return run(words, {{"LD_PRELOAD", SHIM_TEST_RUNTIME}});
}

TEST(Preload, ProgramWithoutNcclStartsNoThreadAndOpensNothing) {
  const Outcome with = run_preloaded({SHIM_TEST_BARE}), without = run_without({SHIM_TEST_BARE});
  expect_inert(with, without);
  EXPECT_EQ(with.err, "");
  if (std::string(SHIM_TEST_RUNTIME).empty()) {
    EXPECT_EQ(figure(with, "threads"), "threads 1");
  }
}

TEST(Preload, True) {
  const Outcome o = run_preloaded({"true"});
  EXPECT_EQ(o.status, 0);
  EXPECT_EQ(o.out + o.err, "");
}

// UCX has to find its environment safe before the job has threads; a process that does not ask for the
// plane keeps the environment that it was given.
TEST(Preload, UcxIsMadeSafeWhereThePlaneIsAskedForAndOnlyThere) {
  const std::vector<std::string> words = {"sh", "-c", "env | grep ^UCX_ | sort"};
  EXPECT_EQ(run_preloaded(words).out, "");
  EXPECT_EQ(run_preloaded(words, {{"STEPGATE_PLANE", "off"}}).out, "");
  EXPECT_EQ(run_preloaded(words, {{"STEPGATE_PLANE", "on"}, {"UCX_HANDLE_ERRORS", "bt"}}).out,
            "UCX_DEBUG_SIGNO=0\nUCX_ERROR_SIGNALS=\nUCX_HANDLE_ERRORS=bt\nUCX_MEM_EVENTS=n\nUCX_WARN_UNUSED_"
            "ENV_VARS=n\n");
  // A rank of MPI keeps the events that its registration cache may need.
  for (const char* rank : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    EXPECT_EQ(run_preloaded(words, {{"STEPGATE_PLANE", "on"}, {rank, "0"}}).out,
              "UCX_DEBUG_SIGNO=0\nUCX_ERROR_SIGNALS=\nUCX_HANDLE_ERRORS=none\nUCX_WARN_UNUSED_ENV_VARS=n\n")
        << rank;
  }
}

TEST(Preload, NcclSymbolWhereThereIsNoNccl) {
  const Outcome with = run_preloaded({SHIM_TEST_BARE, "probe"});
  expect_inert(with, run_without({SHIM_TEST_BARE, "probe"}));
  expect_says(with, "ncclGroupStart 5\nncclGroupStart 5");  // ncclInvalidUsage
  EXPECT_EQ(times(with.err, "has no ncclGroupStart"), 1u) << with.err;
}

TEST(Preload, PlainCProgramCallsEveryFunction) {
  const Outcome o = run({SHIM_TEST_EVERY_FUNCTION, kShim}, {{"LD_PRELOAD", SHIM_TEST_RUNTIME},
                                                            {"STEPGATE_MODE", "enforce"},
                                                            {"STEPGATE_METRICS", "off"},
                                                            {"STEPGATE_LOG", "off"}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  expect_says(o, "every function answers");
}

TEST(Preload, TwoRanksAgreeThroughTheHooks) {
  const Outcome o = run_preloaded({SHIM_TEST_WORKER, "train"});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_EQ(o.out, "skip 1 reason 1 offender 1\nskip 1 reason 1 offender 1\n");
}

TEST(Preload, WithoutThePreloadThereIsNoPlugin) {
  const Outcome o = run_without({SHIM_TEST_WORKER, "create"});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  expect_says(o, "create no plugin");
}

// NCCL comes with a library that is opened RTLD_LOCAL: dlsym(RTLD_NEXT) finds nothing there.
TEST(Preload, NcclOfALocalLibraryIsFound) {
  const Outcome o = run_preloaded({SHIM_TEST_LOCAL_HOST, SHIM_TEST_LOCAL_USER});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
}

TEST(Preload, ModeOffPassesThrough) {
  const Outcome o = run_preloaded({SHIM_TEST_WORKER, "create"}, {{"STEPGATE_MODE", "off"}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  expect_says(o, "create ok: ");
  expect_says(o, "url ok ''");
  expect_says(o, "observe off: stepgate_observe: StepGate is off in this process");
  EXPECT_EQ(o.err, "");
  EXPECT_EQ(run_preloaded({SHIM_TEST_WORKER, "plain"}, {{"STEPGATE_MODE", "off"}}).out, "plain job done\n");
}

// The page's listener would otherwise be the job's standard input, and the next thing that it opens its
// output.
TEST(Preload, NothingOfThePluginsBecomesAStandardStream) {
  const TemporaryFolder folder;
  const Outcome o =
      run_preloaded({SHIM_TEST_WORKER, "closed"}, {{"STEPGATE_METRICS", "on"},
                                                   {"STEPGATE_METRICS_PORT", "0"},
                                                   {"STEPGATE_METRICS_FILE_SD_DIR", folder.file("")}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_EQ(o.out, "stream 0 /dev/null\nstream 1 /dev/null\nstream 2 /dev/null\n") << o.err;
}

TEST(Preload, BadSettingIsSaidOnceAndTheJobRunsOn) {
  const Outcome o = run_preloaded({SHIM_TEST_WORKER, "plain"}, {{"STEPGATE_RULE", "amp"}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_EQ(o.out, "plain job done\n");
  EXPECT_EQ(times(o.err, "STEPGATE_RULE='amp' is refused; allowed: stepgate, torch"), 1u) << o.err;
  EXPECT_EQ(times(o.err, "stays off"), 1u) << o.err;
  const Outcome create = run_preloaded({SHIM_TEST_WORKER, "create"}, {{"STEPGATE_RULE", "amp"}});
  expect_says(create, "create ok: ");  // it votes against enforcing: OddRankOf
  expect_says(create, "observe off: ");
}

TEST(Preload, UnknownSettingIsSaidOnceAndTheJobRunsOn) {
  const Outcome o = run_preloaded({SHIM_TEST_WORKER, "train"}, {{"STEPGATE_INTERVALL", "3"}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_EQ(times(o.err,
                  "nothing reads STEPGATE_INTERVALL of the environment; the nearest known name is "
                  "STEPGATE_INTERVAL\n"),
            1u)
      << o.err;
}

TEST(Preload, SettingsComeFromAFileToo) {
  const TemporaryFolder folder;
  const std::string path = folder.file("stepgate.conf");
  std::ofstream(path) << "STEPGATE_MODE = enforce\nSTEPGATE_RULE = amp\n";
  const Outcome o = run_preloaded({SHIM_TEST_WORKER, "create"}, {{"STEPGATE_CONFIG", path}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  expect_says(o, "observe off: ");
  EXPECT_EQ(times(o.err, path + ":2: STEPGATE_RULE='amp' is refused"), 1u) << o.err;
  const Outcome plain = run_preloaded({SHIM_TEST_WORKER, "plain"}, {{"STEPGATE_CONFIG", path}});
  EXPECT_EQ(plain.out, "plain job done\n") << plain.err;
  const Outcome trained =
      run_preloaded({SHIM_TEST_WORKER, "train"}, {{"STEPGATE_CONFIG", path}, {"STEPGATE_RULE", "torch"}});
  EXPECT_EQ(trained.out, "skip 1 reason 1 offender 1\nskip 1 reason 1 offender 1\n") << trained.err;
}

TEST(Preload, CoreMissingBesideTheShim) {
  const TemporaryFolder folder;
  const std::string lonely = folder.file("libstepgate.so");
  std::filesystem::copy_file(kShim, lonely);
  const Outcome plain = run_preloaded({SHIM_TEST_WORKER, "plain"}, {}, lonely);
  EXPECT_EQ(plain.status, 0) << plain.out << plain.err;
  EXPECT_EQ(plain.out, "plain job done\n");
  EXPECT_EQ(times(plain.err, "the job runs on without StepGate"), 1u) << plain.err;
  const Outcome create = run_preloaded({SHIM_TEST_WORKER, "create"}, {}, lonely);
  EXPECT_EQ(create.status, 0) << create.out << create.err;
  expect_says(create, "create failed: ");
  expect_says(create, "libstepgate_core.so");
  EXPECT_EQ(times(create.err, "the job runs on without StepGate"), 1u) << create.err;
}

TEST(Preload, ObjectThatIsNoCoreIsRefused) {
  const TemporaryFolder folder;
  const std::string lonely = folder.file("libstepgate.so");
  std::filesystem::copy_file(kShim, lonely);
  std::filesystem::copy_file(SHIM_TEST_LOCAL_USER, folder.file("libstepgate_core.so"));
  const Outcome o = run_preloaded({SHIM_TEST_WORKER, "plain"}, {}, lonely);
  EXPECT_EQ(o.out, "plain job done\n") << o.err;
  EXPECT_EQ(times(o.err, "is of another version than the shim beside it"), 1u) << o.err;
}

// The child has none of its parent's threads: what their stacks hold would look like a leak there.
std::string without_leak_check() {
  const char* options = std::getenv("ASAN_OPTIONS");
  return std::string(options != nullptr ? options : "") + ":detect_leaks=0";
}

TEST(Preload, ForkedChildExitsAndItsCallsFail) {
  const Outcome o = run_preloaded(
      {SHIM_TEST_WORKER, "fork"},
      {{"STEPGATE_METRICS", "on"}, {"STEPGATE_METRICS_PORT", "0"}, {"ASAN_OPTIONS", without_leak_check()}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_EQ(o.out, "child 0\nparent goes on\n") << o.err;
}

}  // namespace
}  // namespace stepgate::test

// docs/loaders.md as a test: each way to load NCCL is caught, or found and told.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "metrics/record_source.h"
#include "plugin/survey/judge.h"
#include "tests/plugin/shim/loaders/loader_runs.h"

namespace stepgate::test {
namespace {

// The samples of a family with these labels: the page of a job with a gate has two sources, and both count
// what the whole process does.
std::vector<double> samples(const Outcome& o, const std::string& family,
                            const std::vector<std::string>& labels) {
  std::vector<double> found;
  for (const std::string& line : lines_of(o.out)) {
    if (!line.starts_with(family + "{")) continue;
    const auto missing = [&](const std::string& label) { return line.find(label) == std::string::npos; };
    if (std::none_of(labels.begin(), labels.end(), missing))
      found.push_back(std::stod(line.substr(line.find("} ") + 2)));
  }
  return found;
}

// What all of them say, or -1.
double sample(const Outcome& o, const std::string& family, const std::vector<std::string>& labels) {
  const std::vector<double> found = samples(o, family, labels);
  for (const double value : found) EXPECT_EQ(value, found[0]) << family << " differs by source: " << o.out;
  return found.empty() ? -1 : found[0];
}

double reductions(const Outcome& o) {
  return sample(o, "stepgate_reductions_total", {"\"passed\"", "all_reduce"});
}

double missed(const Outcome& o, const std::string& cause) {
  return sample(o, "stepgate_hooks_missed_total", {"cause=\"" + cause + "\""});
}

// The three reductions went through the hooks, the result is right, and nothing is complained of.
void expect_caught(const Outcome& o) {
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  expect_line(o, "init 0");
  expect_line(o, "group ok");
  expect_line(o, "sum 6");
  EXPECT_EQ(reductions(o), 3) << o.out;
  for (const char* cause : metrics::kMissCauseNames) EXPECT_EQ(missed(o, cause), 0) << cause << o.out;
  EXPECT_EQ(times_said(o, "hooks missed"), 0u) << o.err;
}

// They went past; the job has not noticed, the log and the page have.
void expect_missed(const Outcome& o, const std::string& cause) {
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  expect_line(o, "init 0");
  expect_line(o, "sum 6");
  EXPECT_EQ(reductions(o), 0) << o.out;
  EXPECT_GE(missed(o, cause), 1) << o.out;
  EXPECT_EQ(times_said(o, "hooks missed (" + cause + ")"), 1u) << o.err;
}

Variables on_host() {
  return loader_variables(host_nccl_folder());
}

TEST(LoaderMatrix, LinkedPlainly) {
  expect_caught(run_loader({"linked"}, on_host()));
}

TEST(LoaderMatrix, LibraryOpenedLocally) {
  expect_caught(run_loader({"local", loader_library("shared")}, on_host()));
}

TEST(LoaderMatrix, LibraryThatPythonLoadsLocally) {
  expect_caught(run_python(
      "import ctypes; assert ctypes.CDLL('" + loader_library("shared") + "').use_nccl() == 0", on_host()));
}

TEST(LoaderMatrix, ExtensionModuleOfPython) {
  const std::string script =
      "import importlib.machinery as m, importlib.util as u\n"
      "l = m.ExtensionFileLoader('loader_module', '" +
      loader_library("shared") +
      "')\n"
      "try: u.module_from_spec(u.spec_from_loader('loader_module', l))\n"
      "except SystemError: pass\n";
  expect_caught(run_python(script, on_host()));
}

TEST(LoaderMatrix, Bsymbolic) {
  expect_caught(run_loader({"local", loader_library("bsymbolic")}, on_host()));
}

// No libnccl.so.2 is loaded at all: the copy is found through its caller.
TEST(LoaderMatrix, StaticWithDefaultVisibility) {
  expect_caught(run_loader({"local", loader_library("static")}, on_host()));
}

// Each communicator is served by the copy that made it: the counting one counts its own calls alone.
TEST(LoaderMatrix, TwoCopiesEachWithItsOwnTable) {
  for (const bool second_first : {false, true}) {
    std::vector<std::string> words = {"local", loader_library("shared"), loader_library("second")};
    if (second_first) std::swap(words[1], words[2]);
    const Outcome o = run_loader(words, on_host());
    EXPECT_EQ(o.status, 0) << o.out << o.err;
    expect_line(o, "version 21805");
    expect_line(o, "counted 3");
    std::size_t sums = 0, groups = 0, versions = 0;
    for (const std::string& line : lines_of(o.out)) {
      sums += line == "sum 6";
      groups += line == "group ok";
      versions += line.starts_with("version ");
    }
    EXPECT_EQ(sums, 2u) << o.out;
    EXPECT_EQ(groups, 2u) << o.out;
    EXPECT_EQ(versions, 2u) << o.out;
    EXPECT_EQ(times_said(o, "hooks missed"), 0u) << o.err;
  }
}

TEST(LoaderMatrixDeepbind, IsFoundAndTold) {
  const Outcome o = run_loader({"deepbind", loader_library("shared")}, on_host());
  expect_missed(o, "deepbind");
  expect_line(o, "group invalid");
  EXPECT_NE(o.err.find("RTLD_DEEPBIND"), std::string::npos) << o.err;
}

TEST(LoaderMatrixDeepbind, IsFoundAtTheEndOfAJobWithoutGates) {
  const Outcome o = run_loader({"deepbind", loader_library("shared")},
                               loader_variables(host_nccl_folder(), {{"LOADER_WITHOUT_GATE", "1"}}));
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  expect_line(o, "sum 6");
  EXPECT_EQ(o.out.find("group"), std::string::npos) << o.out;
  EXPECT_EQ(times_said(o, "hooks missed (deepbind)"), 1u) << o.err;
}

TEST(LoaderMatrixDeepbind, IsNotToldWhereThePluginIsOff) {
  const Variables off = loader_variables(host_nccl_folder(), {{"STEPGATE_MODE", "off"}});
  EXPECT_EQ(times_said(run_loader({"deepbind", loader_library("shared")}, off), "hooks missed"), 0u);
}

TEST(LoaderMatrix, DlsymOnTheHandleIsFoundAndTold) {
  const Outcome o = run_loader({"local", loader_library("dlsym")}, on_host());
  expect_missed(o, "dlsym");
  EXPECT_NE(o.err.find("libnccl.so.2 is loaded, and nothing is linked to it"), std::string::npos) << o.err;
}

// A program that never calls StepGate: told when it ends.
TEST(LoaderMatrix, CtypesOnTheHandleIsToldAtTheEnd) {
  const std::string script =
      "import ctypes; v = ctypes.c_int(); ctypes.CDLL('libnccl.so.2').ncclGetVersion(ctypes.byref(v))";
  const Outcome o = run_python(script, on_host());
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(times_said(o, "hooks missed (dlsym)"), 1u) << o.err;
  Variables off = loader_variables(host_nccl_folder(), {{"STEPGATE_MODE", "off"}});
  EXPECT_EQ(run_python(script, off).err, "");
}

// A gate, then a communicator of one rank and its end, by what `library` is: calls through ctypes.
std::string ctypes_job(const std::string& library) {
  return "import ctypes as c\n"
         "c.CDLL('libnccl.so.2', c.RTLD_GLOBAL)\n"
         "n = " +
         library +
         "\n"
         "class Id(c.Structure): _fields_ = [('bytes', c.c_char * 128)]\n"
         "id, comm, gate = Id(), c.c_void_p(), c.c_void_p()\n"
         "assert c.CDLL(None).stepgate_gate_create(None, c.byref(gate)) == 0\n"
         "assert n.ncclGetUniqueId(c.byref(id)) == 0\n"
         "assert n.ncclCommInitRank(c.byref(comm), 1, id, 0) == 0\n"
         "assert n.ncclCommDestroy(comm) == 0\n";
}

// Nothing is linked to that library, and yet its calls are seen.
TEST(LoaderMatrix, CtypesOnTheGlobalScope) {
  const Outcome o = run_python(ctypes_job("c.CDLL(None)"), on_host());
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(times_said(o, "hooks missed"), 0u) << o.err;
  const Outcome past = run_python(ctypes_job("c.CDLL('libnccl.so.2')"), on_host());
  EXPECT_EQ(past.status, 0) << past.err;
  EXPECT_EQ(times_said(past, "hooks missed (dlsym)"), 1u) << past.err;
}

// NCCL asks for its communicator's state in each call: so calls past the hooks show, one by one.
TEST(LoaderMatrix, CallsPastTheHooksAreCountedByWhatNcclAsks) {
  const Outcome o = run_loader({"local", loader_library("dlsym")}, loader_variables(counting_nccl_folder()));
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  expect_line(o, "version 21805");
  expect_line(o, "counted 3");
  EXPECT_GE(missed(o, "dlsym"), 4) << "one finding and three calls: " << o.out;
}

TEST(LoaderMatrix, HiddenStaticIsFoundByItsCommunicator) {
  const Outcome o = run_loader({"local", loader_library("hidden")}, on_host());
  expect_missed(o, "hidden");
  EXPECT_NE(o.err.find("--exclude-libs"), std::string::npos) << o.err;
}

TEST(LoaderMatrix, StaticWithCallsBoundInsideIsFound) {
  const Outcome o = run_loader({"local", loader_library("symbolic")}, on_host());
  expect_missed(o, "hidden");
  EXPECT_NE(o.err.find("-Bsymbolic"), std::string::npos) << o.err;
}

TEST(LoaderMatrix, TailCallWithSeveralCopiesIsTold) {
  const Outcome two = run_loader({"wrapper", loader_library("wrapper"), loader_library("second")}, on_host());
  EXPECT_EQ(two.status, 0) << two.out << two.err;
  EXPECT_EQ(times_said(two, "hooks missed (tail_call)"), 1u) << two.err;
  EXPECT_EQ(missed(two, "tail_call"), 1) << two.out;
  // With one copy it does not matter who calls.
  const Outcome one = run_loader({"wrapper", loader_library("wrapper"), loader_library("shared")}, on_host());
  EXPECT_EQ(one.status, 0) << one.out << one.err;
  EXPECT_EQ(times_said(one, "hooks missed"), 0u) << one.err;
  EXPECT_EQ(missed(one, "tail_call"), 0) << one.out;
}

TEST(LoaderMatrix, LogLevelIsHeeded) {
  const Variables quiet = loader_variables(host_nccl_folder(), {{"STEPGATE_LOG", "error"}});
  const Outcome o = run_loader({"local", loader_library("dlsym")}, quiet);
  EXPECT_EQ(times_said(o, "hooks missed"), 0u) << o.err;
  EXPECT_GE(missed(o, "dlsym"), 1) << "counted all the same: " << o.out;
}

TEST(LoaderMatrix, CausesAreTheMetricsOnes) {
  ASSERT_EQ(survey::kCauses, metrics::kMissCauses);
  for (std::size_t i = 0; i < survey::kCauses; ++i) {
    EXPECT_STREQ(survey::kCauseNames[i], metrics::kMissCauseNames[i]);
  }
}

}  // namespace
}  // namespace stepgate::test

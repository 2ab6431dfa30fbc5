// `stepgate check --pid` and `stepgate check -- PROGRAM` on every way to load NCCL.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/plugin/shim/loaders/loader_runs.h"

namespace stepgate::test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

const std::string kShim = STEPGATE_TEST_LIB "/libstepgate.so";

// The command itself runs without the plugin, as in a user's shell; what it starts gets it.
Variables shell_variables(const std::string& folder) {
  Variables v = loader_variables(folder);
  v["LD_PRELOAD"] = LOADER_TEST_RUNTIME;
  return v;
}

json check(Words words, const Variables& variables, int status) {
  words.insert(words.begin(), {command_path(), "check", "--json"});
  const Outcome o = run(words, variables);
  EXPECT_EQ(o.status, status) << o.out << o.err;
  const json all = json::parse(o.out, nullptr, false);
  EXPECT_FALSE(all.is_discarded()) << o.out << o.err;
  return all;
}

json check_program(const Words& program, int status, const std::string& folder = host_nccl_folder()) {
  Words words = {"--"};
  words.insert(words.end(), program.begin(), program.end());
  return check(words, shell_variables(folder), status);
}

Words loader(const std::string& how, const Words& libraries) {
  Words words = {LOADER_TEST_PROGRAM, how};
  for (const std::string& name : libraries) words.push_back(loader_library(name));
  return words;
}

// The one process that has to do with NCCL.
json the_process(const json& all) {
  for (const json& p : all.at("processes")) {
    if (!p.at("nccl").empty() || !p.at("missed").empty()) return p;
  }
  ADD_FAILURE() << all.dump(2);
  return json::object();
}

Words causes(const json& process) {
  Words found;
  for (const json& f : process.at("missed")) {
    found.push_back(f.at("cause"));
    EXPECT_NE(f.at("remedy"), "") << f;
    EXPECT_NE(f.at("text"), "") << f;
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool names(const json& list, const std::string& part) {
  return std::any_of(list.begin(), list.end(),
                     [&](const json& e) { return e.dump().find(part) != std::string::npos; });
}

TEST(CheckProgram, CaughtWays) {
  for (const char* library : {"shared", "bsymbolic", "static"}) {
    const json p = the_process(check_program(loader("local", {library}), 0));
    EXPECT_EQ(causes(p), Words{}) << library << p;
    EXPECT_TRUE(names(p.at("hooked"), std::string("loader_") + library + ".so")) << p;
    EXPECT_EQ(p.at("plugin"), kShim);
    ASSERT_EQ(p.at("nccl").size(), 1u) << p;
  }
  const json linked = the_process(check_program({LOADER_TEST_LINKED, "linked"}, 0));
  EXPECT_TRUE(names(linked.at("hooked"), "loader_linked")) << linked;
  EXPECT_TRUE(names(linked.at("nccl"), "hostnccl/libnccl.so.2")) << linked;
}

TEST(CheckProgram, LibraryOfPython) {
  const json all = check_program(
      {"python3", "-c", "import ctypes; ctypes.CDLL('" + loader_library("shared") + "').use_nccl()"}, 0);
  EXPECT_TRUE(names(the_process(all).at("hooked"), "loader_shared.so")) << all.dump(2);
}

TEST(CheckProgramDeepbind, IsReported) {
  const json p = the_process(check_program(loader("deepbind", {"shared"}), 1));
  EXPECT_EQ(causes(p), Words{"deepbind"}) << p;
}

TEST(CheckProgram, MissedWays) {
  const std::map<std::string, std::string> ways = {
      {"dlsym", "dlsym"}, {"hidden", "hidden"}, {"symbolic", "hidden"}};
  for (const auto& [library, cause] : ways) {
    const json p = the_process(check_program(loader("local", {library}), 1));
    EXPECT_EQ(causes(p), Words{cause}) << library << p;
  }
}

TEST(CheckProgram, TailCallMattersWithSeveralCopies) {
  const Words two = {LOADER_TEST_PROGRAM, "wrapper", loader_library("wrapper"), loader_library("second")};
  const json p = the_process(check_program(two, 1));
  EXPECT_EQ(causes(p), Words{"tail_call"}) << p;
  EXPECT_EQ(p.at("nccl").size(), 2u) << p;
  const Words one = {LOADER_TEST_PROGRAM, "wrapper", loader_library("wrapper"), loader_library("shared")};
  EXPECT_EQ(causes(the_process(check_program(one, 0))), Words{});
}

// mpirun and others start the ranks: these are what is looked at.
TEST(CheckProgram, ChildrenAreLookedAt) {
  const json all = check_program({"sh", "-c", "true; " LOADER_TEST_LINKED " linked; exit 7"}, 0);
  EXPECT_TRUE(names(the_process(all).at("hooked"), "loader_linked")) << all.dump(2);
  EXPECT_TRUE(names(all.at("checks"), "ended with status 7")) << all.dump(2);
}

TEST(CheckProgram, EndedAfterItsTime) {
  const Outcome o = run({command_path(), "check", "--seconds", "0.3", "--", "sleep", "1000"},
                        shell_variables(host_nccl_folder()), std::chrono::seconds(30));
  EXPECT_NE(o.out.find("still ran after"), std::string::npos) << o.out << o.err;
}

TEST(CheckProgram, ItsOutputStaysOutOfTheReportAndSignalsReachIt) {
  const Outcome o = run({command_path(), "check", "--json", "--", "sh", "-c",
                         "trap 'echo got it; exit 0' USR1; echo hello; kill -USR1 $$; sleep 5; exit 1"},
                        shell_variables(host_nccl_folder()));
  EXPECT_FALSE(json::parse(o.out, nullptr, false).is_discarded()) << o.out;
  EXPECT_NE(o.err.find("hello"), std::string::npos);
  EXPECT_NE(o.err.find("got it"), std::string::npos) << o.err;
}

TEST(CheckProgram, ThatIsNotThere) {
  const Outcome o =
      run({command_path(), "check", "--", "/no/such/program"}, shell_variables(host_nccl_folder()));
  EXPECT_EQ(o.status, 1);
  EXPECT_NE(o.err.find("cannot start /no/such/program"), std::string::npos) << o.err;
}

// A shell that has run the lines of `stepgate env` has the command preloaded too.
TEST(CheckProgram, SaysNothingOfItself) {
  const Outcome o = run({command_path(), "check"}, loader_variables(host_nccl_folder()));
  EXPECT_EQ(o.err, "") << o.out;
}

// A program that has done its work and waits.
class CheckPid : public testing::Test {
 protected:
  json check_paused(const Words& words, Variables variables, int status) {
    variables["LOADER_PAUSE"] = "1";
    Process process(words, variables);
    EXPECT_TRUE(process.wait_for("paused"));
    const Words pid = {"--pid", std::to_string(process.pid())};
    return check(pid, shell_variables(host_nccl_folder()), status);
  }
};

TEST_F(CheckPid, CaughtAndNotStopped) {
  const json all = check_paused({LOADER_TEST_LINKED, "linked"}, loader_variables(host_nccl_folder()), 0);
  const json p = the_process(all);
  EXPECT_TRUE(names(p.at("hooked"), "loader_linked")) << p;
  EXPECT_TRUE(names({p.at("program")}, "loader_linked linked")) << p;
}

TEST_F(CheckPid, MissedWays) {
  const json handle = check_paused(loader("local", {"dlsym"}), loader_variables(host_nccl_folder()), 1);
  EXPECT_EQ(causes(the_process(handle)), Words{"dlsym"});
  const json hidden = check_paused(loader("local", {"hidden"}), loader_variables(host_nccl_folder()), 1);
  EXPECT_EQ(causes(the_process(hidden)), Words{"hidden"});
}

TEST_F(CheckPid, ProcessWithoutThePlugin) {
  const json all = check_paused({LOADER_TEST_LINKED, "linked"}, shell_variables(host_nccl_folder()), 1);
  EXPECT_EQ(the_process(all).at("plugin"), nullptr);
  for (const json& line : all.at("checks")) {
    if (line.at("subject") != "preload") continue;
    EXPECT_EQ(line.at("state"), "wrong");
    EXPECT_NE(line.at("remedy").get<std::string>().find("stepgate env"), std::string::npos);
    return;
  }
  FAIL() << all.dump(2);
}

TEST_F(CheckPid, NoSuchProcess) {
  const Outcome o = run({command_path(), "check", "--pid", "4194303"}, shell_variables(host_nccl_folder()));
  EXPECT_EQ(o.status, 1);
  EXPECT_NE(o.out.find("there is no such process"), std::string::npos) << o.out;
}

TEST(CheckNvidia, VersionOfTheMappedLibrary) {
  if (std::string(LOADER_TEST_NVIDIA).empty()) GTEST_SKIP() << "needs NVIDIA's libnccl.so.2";
  const std::filesystem::path path = LOADER_TEST_NVIDIA;
  const json p = the_process(check_program({LOADER_TEST_LINKED, "linked"}, 0, path.parent_path().string()));
  ASSERT_EQ(p.at("nccl").size(), 1u) << p;
  EXPECT_EQ(p.at("nccl").at(0).at("path"), std::filesystem::canonical(path).string());
  EXPECT_TRUE(p.at("nccl").at(0).at("version").is_string()) << p;
}

}  // namespace
}  // namespace stepgate::test

// `stepgate env`: its lines are run by a shell, its options handed to mpirun.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/integration/process.h"

namespace stepgate::test {
namespace {

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;
using nlohmann::json;

const std::string kPlugin = STEPGATE_TEST_LIB "/libstepgate.so";

Outcome env(const Words& options, const Variables& variables = {}) {
  Words words = {command_path(), "env"};
  words.insert(words.end(), options.begin(), options.end());
  return run(words, variables);
}

// What a shell holds after it has run the lines, `times` over, as a program under it sees it.
std::string after_eval(const std::string& launcher, const std::string& name, Variables variables = {},
                       int times = 1, const std::string& shell = "sh") {
  std::string script;
  for (int i = 0; i < times; ++i) {
    script += "eval \"$(" + command_path() + " env " + launcher + ")\" || exit 9; ";
  }
  variables["ASAN_OPTIONS"] = "verify_asan_link_order=0:detect_leaks=0";
  const Outcome o = run({shell, "-c", script + "exec printenv " + name}, variables);
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_EQ(o.err, "");
  return o.out.empty() ? "" : o.out.substr(0, o.out.size() - 1);
}

bool sanitized() {
  return !std::string(STEPGATE_TEST_RUNTIME).empty();
}

// The list that LD_PRELOAD becomes; a sanitizer's runtime stands in front.
std::string behind_runtime(const std::string& list) {
  return sanitized() ? std::string(STEPGATE_TEST_RUNTIME) + ":" + list : list;
}
std::string preload_list(const std::string& before) {
  return behind_runtime(before.empty() ? kPlugin : before + ":" + kPlugin);
}

TEST(Env, EveryLauncherPreloadsThePlugin) {
  for (const char* launcher : {"", "torchrun", "mpirun", "srun"}) {
    EXPECT_EQ(after_eval(launcher, "LD_PRELOAD", {{"LD_PRELOAD", ""}}), preload_list("")) << launcher;
  }
}

TEST(Env, PreloadIsAppendedToAndRunningTwiceChangesNothing) {
  const Variables before = {{"LD_PRELOAD", "libm.so.6"}};
  EXPECT_EQ(after_eval("torchrun", "LD_PRELOAD", before), preload_list("libm.so.6"));
  EXPECT_EQ(after_eval("torchrun", "LD_PRELOAD", before, 3), preload_list("libm.so.6"));
  // With a space, as ld.so allows. (A plugin built with a sanitizer loads behind its runtime only.)
  const std::string spaced = behind_runtime("libm.so.6 " + kPlugin);
  EXPECT_EQ(after_eval("torchrun", "LD_PRELOAD", {{"LD_PRELOAD", spaced}}), spaced);
}

TEST(Env, BashUnderStrictOptionsTakesItToo) {
  const Outcome o = run({"bash", "-euc",
                         "unset LD_PRELOAD UCX_MEM_EVENTS; eval \"$(" + command_path() +
                             " env torchrun)\"; echo $LD_PRELOAD $UCX_MEM_EVENTS"},
                        {{"ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0"}});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.out, preload_list("") + " n\n");
}

TEST(Env, SettingsArriveWhateverTheyHold) {
  const std::string odd = "a b'c\"$HOME*";
  const Outcome o = run({"sh", "-c",
                         "eval \"$(" + command_path() +
                             " env --mode enforce --set \"ODD=$VALUE\")\"; printenv ODD STEPGATE_MODE"},
                        {{"VALUE", odd}, {"ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0"}});
  EXPECT_EQ(o.out, odd + "\nenforce\n") << o.err;
}

TEST(Env, UcxIsMadeSafeUnlessTheCallerDiffers) {
  EXPECT_EQ(after_eval("torchrun", "UCX_HANDLE_ERRORS"), "none");
  EXPECT_EQ(after_eval("torchrun", "UCX_HANDLE_ERRORS", {{"UCX_HANDLE_ERRORS", "bt"}}), "bt");
  EXPECT_EQ(after_eval("torchrun", "UCX_ERROR_SIGNALS", {{"UCX_ERROR_SIGNALS", ""}}), "");
  EXPECT_EQ(after_eval("srun", "UCX_MEM_EVENTS"), "n");
  // The job's MPI may be on UCX, and its registration cache needs memory events.
  EXPECT_EQ(env({"mpirun"}).out.find("UCX_MEM_EVENTS"), std::string::npos);
}

TEST(Env, HostNcclComesFirstInTheLibraryPath) {
  const std::string folder = STEPGATE_TEST_LIB "/hostnccl";
  EXPECT_EQ(after_eval("--nccl host", "LD_LIBRARY_PATH", {{"LD_LIBRARY_PATH", "/somewhere"}}),
            folder + ":/somewhere");
  EXPECT_EQ(env({}).out.find("LD_LIBRARY_PATH"), std::string::npos);
}

TEST(Env, EveryLauncherHasItsNote) {
  EXPECT_NE(env({"torchrun"}).out.find("# torchrun hands its environment to the ranks"), std::string::npos);
  EXPECT_NE(env({"mpirun"}).out.find("# mpirun hands its environment to ranks on this machine alone"),
            std::string::npos);
  EXPECT_NE(env({"srun"}).out.find("--export=NONE"), std::string::npos);
  const std::string note = sanitized() ? "goes to the front of LD_PRELOAD" : "libasan.so";
  for (const char* launcher : {"torchrun", "mpirun", "srun"}) {
    EXPECT_NE(env({launcher}).out.find(note), std::string::npos) << launcher;
  }
}

TEST(Env, ArgumentsOfMpirun) {
  const Outcome o = env(
      {"mpirun", "--args", "--mode", "observe"},
      {{"LD_PRELOAD", sanitized() ? STEPGATE_TEST_RUNTIME : "libm.so.6"}, {"STEPGATE_METRICS_PORT", "0"}});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_TRUE(o.out.starts_with("-x ")) << o.out;
  const std::string list = sanitized() ? preload_list("") : preload_list("libm.so.6");
  EXPECT_NE(o.out.find("-x LD_PRELOAD=" + list + " "), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("-x STEPGATE_MODE=observe"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("-x STEPGATE_METRICS_PORT=0"), std::string::npos) << "what is set already: " << o.out;
  EXPECT_EQ(std::count(o.out.begin(), o.out.end(), '\n'), 1);
}

TEST(Env, ArgumentsOfSrun) {
  const Outcome o = env({"srun", "--args", "--set", "STEPGATE_RULE=torch"}, {{"LD_PRELOAD", ""}});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_TRUE(o.out.starts_with("--export=ALL,LD_PRELOAD=" + preload_list("") + ",")) << o.out;
  EXPECT_NE(o.out.find(",STEPGATE_RULE=torch"), std::string::npos) << o.out;
  EXPECT_EQ(o.out.find(' '), std::string::npos) << o.out;
}

TEST(Env, ArgumentsThatTheShellOrSrunWouldSplitAreRefused) {
  for (const char* launcher : {"mpirun", "srun"}) {
    const Outcome o = env({launcher, "--args", "--set", "NAME=a b"});
    EXPECT_EQ(o.status, 1);
    EXPECT_NE(o.err.find("NAME='a b' cannot stand in --args; allowed: "), std::string::npos) << o.err;
  }
  EXPECT_EQ(env({"srun", "--args", "--set", "NAME=a,b"}).status, 1);
  EXPECT_EQ(env({"mpirun", "--args", "--set", "NAME=a,b"}).status, 0);
}

// The ranks have the plugin, and the launcher does not.
TEST(Env, MpirunHandsItOver) {
  const Outcome o = run({"sh", "-c",
                         "mpirun --allow-run-as-root --oversubscribe $(" + command_path() +
                             " env mpirun --args --mode observe) -n 2 printenv LD_PRELOAD STEPGATE_MODE"},
                        {{"LD_PRELOAD", ""}, {"ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0"}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_EQ(lines_of(o.out).size(), 4u) << o.out;
  EXPECT_NE(o.out.find(preload_list("") + "\nobserve\n"), std::string::npos) << o.out;
}

TEST(Env, SameForPrograms) {
  const Outcome o = env({"srun", "--json", "--mode", "enforce"});
  ASSERT_EQ(o.status, 0) << o.err;
  const json all = json::parse(o.out);
  EXPECT_EQ(all.at("launcher"), "srun");
  std::map<std::string, json> variables;
  for (const json& v : all.at("variables")) variables[v.at("name")] = v;
  EXPECT_EQ(variables.at("LD_PRELOAD"),
            (json{{"name", "LD_PRELOAD"}, {"value", kPlugin}, {"how", "append"}}));
  EXPECT_EQ(variables.at("STEPGATE_MODE").at("value"), "enforce");
  EXPECT_EQ(variables.at("UCX_HANDLE_ERRORS").at("how"), "default");
  EXPECT_GE(all.at("notes").size(), 2u);
}

TEST(Env, WrongWordsAreRefused) {
  const std::vector<Words> wrong = {{"pbs"},
                                    {"srun", "mpirun"},
                                    {"--mode", "on"},
                                    {"--set", "X"},
                                    {"--set", "LD_PRELOAD=x"},
                                    {"--args"},
                                    {"--nccl", ""},
                                    {"srun", "--args", "--json"},
                                    {"--plugin", "/etc/hosts"},
                                    {"--jason"},
                                    {"--args=1"},
                                    {"--mode", "off", "--set", "STEPGATE_MODE=off"}};
  for (const Words& words : wrong) {
    const Outcome o = env(words);
    EXPECT_EQ(o.status, 2) << words[0] << o.out << o.err;
    EXPECT_EQ(o.out, "");
    EXPECT_NE(o.err, "");
  }
  EXPECT_EQ(env({"--help"}).status, 0);
}

TEST(Env, FolderThatLdPreloadCannotHoldIsRefused) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("a b/bin"));
  std::filesystem::create_directories(folder.file("a b/lib"));
  std::filesystem::copy_file(command_path(), folder.file("a b/bin/stepgate"));
  std::filesystem::copy_file(kPlugin, folder.file("a b/lib/libstepgate.so"));
  const Outcome o = run({folder.file("a b/bin/stepgate"), "env"});
  EXPECT_EQ(o.status, 1);
  EXPECT_NE(o.err.find("a space or a colon"), std::string::npos) << o.err;
}

}  // namespace
}  // namespace stepgate::test

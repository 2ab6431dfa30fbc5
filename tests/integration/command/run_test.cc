// `stepgate run` as a process, with shell scripts as ranks.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <thread>

#include "tests/integration/process.h"

namespace stepgate::test {
namespace {

using Words = std::vector<std::string>;

// Ranks without plugin and without NCCL: what is tested here is the launcher.
Words launch(unsigned ranks, const std::string& script, const Words& options = {}) {
  Words words = {command_path(), "run", "-n", std::to_string(ranks), "--no-plugin", "--nccl", "system"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", "sh", "-c", script});
  return words;
}

bool gone(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/stat");
  std::string id, name, state;
  return !(status >> id >> name >> state) || state == "Z";
}

TEST(Run, EveryRankGetsItsEnvironment) {
  const Outcome outcome = run(launch(3, "echo $RANK/$LOCAL_RANK/$WORLD_SIZE/$LOCAL_WORLD_SIZE/$MASTER_ADDR"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::vector<std::string> lines = lines_of(outcome.out);
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines, (Words{"[0] 0/0/3/3/127.0.0.1", "[1] 1/1/3/3/127.0.0.1", "[2] 2/2/3/3/127.0.0.1"}));
}

TEST(Run, AllRanksShareOnePortAndOneRunId) {
  const Outcome outcome = run(launch(4, "echo $MASTER_PORT $STEPGATE_RUN_ID"));
  std::set<std::string> values;
  for (const std::string& line : lines_of(outcome.out)) values.insert(line.substr(4));
  ASSERT_EQ(values.size(), 1u) << outcome.out;
  EXPECT_GT(values.begin()->size(), 6u);
}

TEST(Run, ModeAndSettingsReachTheRanks) {
  const Outcome outcome = run(launch(1, "echo $STEPGATE_MODE $COLOUR $UCX_MEM_EVENTS",
                                     {"--mode", "observe", "--set", "COLOUR=a=b", "--set=COLOUR=red blue"}));
  EXPECT_EQ(outcome.out, "[0] observe red blue n\n");
}

TEST(Run, UcxIsMadeSafeBeforeExecAndTheCallerMayDiffer) {
  const std::string script =
      "echo ${UCX_ERROR_SIGNALS-unset}/$UCX_HANDLE_ERRORS/$UCX_MEM_EVENTS/$UCX_WARN_UNUSED_ENV_VARS/"
      "$UCX_DEBUG_SIGNO";
  EXPECT_EQ(run(launch(1, script)).out, "[0] /none/n/n/0\n");
  EXPECT_EQ(run(launch(1, script), {{"UCX_HANDLE_ERRORS", "bt"}}).out, "[0] /bt/n/n/0\n");
}

TEST(Run, BothStreamsArePrefixedAndStaySeparate) {
  const Outcome outcome = run(launch(1, "echo one; echo two >&2; printf three"));
  EXPECT_EQ(outcome.out, "[0] one\n[0] three\n");
  EXPECT_EQ(outcome.err, "[0] two\n");
}

// Each rank prints lines in small pieces; none may be cut by another rank's.
TEST(Run, LinesAreNeverMixed) {
  const Outcome outcome = run(launch(4,
                                     "i=0; while [ $i -lt 200 ]; do printf \"$RANK-\"; printf \"$i-\"; "
                                     "printf \"$RANK\\n\"; i=$((i+1)); done"));
  std::vector<std::size_t> next(4, 0);
  for (const std::string& line : lines_of(outcome.out)) {
    const std::size_t rank = static_cast<std::size_t>(line[1] - '0');
    const std::string digit(1, line[1]);
    ASSERT_LT(rank, 4u) << line;
    EXPECT_EQ(line, "[" + digit + "] " + digit + "-" + std::to_string(next[rank]++) + "-" + digit);
  }
  EXPECT_EQ(next, std::vector<std::size_t>(4, 200));
}

TEST(Run, LongOutputArrivesWhole) {
  const Outcome outcome = run(launch(2, "head -c 300000 /dev/zero | tr '\\0' x; echo; echo end"));
  const std::string line(300000, 'x');
  EXPECT_NE(outcome.out.find("[0] " + line + "\n"), std::string::npos);
  EXPECT_NE(outcome.out.find("[1] " + line + "\n"), std::string::npos);
  EXPECT_NE(outcome.out.find("[1] end\n"), std::string::npos);
}

TEST(Run, FirstFailingRankIsNamedAndTheOthersEnd) {
  const Outcome outcome = run(launch(3, "if [ $RANK = 1 ]; then echo bad; exit 7; fi; exec sleep 1000"));
  EXPECT_EQ(outcome.status, 7);
  EXPECT_EQ(outcome.out, "[1] bad\n");
  EXPECT_NE(outcome.err.find("rank 1 failed first: exit status 7"), std::string::npos) << outcome.err;
}

TEST(Run, RankEndedByASignalGives128AndTheSignal) {
  const Outcome outcome = run(launch(2, "if [ $RANK = 0 ]; then kill -SEGV $$; fi; exec sleep 1000"));
  EXPECT_EQ(outcome.status, 128 + SIGSEGV);
  EXPECT_NE(outcome.err.find("rank 0 failed first: signal 11"), std::string::npos) << outcome.err;
}

TEST(Run, RankThatIgnoresTermIsKilledAfterTheGrace) {
  const Outcome outcome =
      run(launch(2, "if [ $RANK = 1 ]; then sleep 0.2; exit 3; fi; trap '' TERM; while :; do sleep 1; done",
                 {"--grace", "0.2"}));
  EXPECT_EQ(outcome.status, 3);
  EXPECT_NE(outcome.err.find("rank 0 did not end, killing it"), std::string::npos) << outcome.err;
}

TEST(Run, StoppedRankDoesNotHoldTheOthersUp) {
  const Outcome outcome = run(launch(2, "if [ $RANK = 1 ]; then exit 3; fi; kill -STOP $$; sleep 1000"));
  EXPECT_EQ(outcome.status, 3);
}

TEST(Run, ChildrenOfAFailedRankEndWithIt) {
  const TemporaryFolder folder;
  const std::string file = folder.file("pid");
  const Outcome outcome =
      run(launch(1, "sleep 1000 >/dev/null 2>&1 & echo $! > " + file + "; kill -KILL $$"));
  EXPECT_EQ(outcome.status, 128 + SIGKILL);
  pid_t child = 0;
  std::ifstream(file) >> child;
  ASSERT_GT(child, 0);
  // It is killed before the launcher ends, but its new parent has to reap it.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!gone(child) && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(gone(child));
}

class RunSignals : public testing::TestWithParam<int> {};

TEST_P(RunSignals, ArePassedOnToTheRanks) {
  const std::string name = GetParam() == SIGINT ? "INT" : "TERM";
  Process process(
      launch(2, "trap 'echo got; exit 0' " + name + "; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(process.wait_for("[0] ready"));
  ASSERT_TRUE(process.wait_for("[1] ready"));
  kill(process.pid(), GetParam());
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("[0] got"), std::string::npos);
  EXPECT_NE(outcome.out.find("[1] got"), std::string::npos);
}

TEST_P(RunSignals, RankThatDiesOfItIsTheExitStatus) {
  Process process(launch(2, "trap - INT TERM; echo ready; exec sleep 1000"));
  ASSERT_TRUE(process.wait_for("[0] ready"));
  ASSERT_TRUE(process.wait_for("[1] ready"));
  kill(process.pid(), GetParam());
  EXPECT_EQ(process.finish().status, 128 + GetParam());
}

INSTANTIATE_TEST_SUITE_P(Both, RunSignals, testing::Values(SIGINT, SIGTERM));

// A closed terminal. Ranks are groups of their own, and one that a hangup ends says nothing more.
TEST(Run, AHangupEndsTheRanksInOrder) {
  Process process(launch(2, "trap 'echo got; exit 0' TERM; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(process.wait_for("[0] ready"));
  ASSERT_TRUE(process.wait_for("[1] ready"));
  kill(process.pid(), SIGHUP);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("[0] got"), std::string::npos);
  EXPECT_NE(outcome.out.find("[1] got"), std::string::npos);
}

TEST(Run, SecondSignalKills) {
  Process process(launch(1, "trap '' TERM; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(process.wait_for("ready"));
  // Two at once are one wish, so this goes on until they are two.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!process.ended() && std::chrono::steady_clock::now() < deadline) {
    kill(process.pid(), SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.status, 128 + SIGKILL);
  EXPECT_NE(outcome.err.find("second signal"), std::string::npos);
}

TEST(Run, RankThatIgnoresOneSignalIsKilledAfterTheGrace) {
  Process process(launch(1, "trap '' TERM; echo ready; while :; do sleep 0.05; done", {"--grace", "0.2"}));
  ASSERT_TRUE(process.wait_for("ready"));
  kill(process.pid(), SIGTERM);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.status, 128 + SIGKILL);
  EXPECT_NE(outcome.err.find("rank 0 did not end, killing it"), std::string::npos) << outcome.err;
}

// Through a shell, for its redirections.
Outcome launch_in_shell(const std::string& script, const std::string& redirection) {
  return run({"sh", "-c",
              command_path() + " run -n 2 --no-plugin --nccl system --grace 0.2 -- sh -c '" + script + "' " +
                  redirection});
}

TEST(RunOutput, WithoutAReaderTheRanksEnd) {
  const TemporaryFolder folder;
  const std::string script = command_path() +
                             " run -n 2 --no-plugin --nccl system --grace 0.2 -- sh -c "
                             "\"trap '' TERM; while :; do echo line; sleep 0.02; done\"; echo status=$? >&2";
  const Outcome outcome = run({"sh", "-c", "{ " + script + "; } | head -n 1"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.err.find("cannot write to standard output: Broken pipe; ending all ranks"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("did not end, killing it"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("status=1"), std::string::npos) << outcome.err;
}

// The ranks have filled the pipe and the launcher holds more: the signal must get through all the same.
TEST(RunOutput, ReaderThatPausesDoesNotHoldSignalsUp) {
  Process process(launch(2, "echo ready; exec yes", {"--grace", "0.2"}));
  ASSERT_TRUE(process.wait_for("ready"));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // only makes the full pipe likely
  kill(process.pid(), SIGTERM);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!process.ended() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(process.ended());
  EXPECT_EQ(process.finish().status, 128 + SIGTERM);
}

TEST(RunOutput, ThatCannotBeWrittenIsAFailureAndTheRanksGoOn) {
  for (const char* redirection : {">/dev/full", ">&-"}) {
    const TemporaryFolder folder;
    const Outcome outcome =
        launch_in_shell("echo line; sleep 0.3; echo >" + folder.file("$RANK"), redirection);
    EXPECT_EQ(outcome.status, 1) << redirection;
    EXPECT_NE(outcome.err.find("cannot write to standard output: "), std::string::npos) << outcome.err;
    EXPECT_TRUE(std::ifstream(folder.file("0")) && std::ifstream(folder.file("1"))) << redirection;
  }
}

TEST(RunOutput, ThatIsOnlyHelpIsChecked) {
  for (const char* words : {"--help", "--version", "run --help", "simulate --help",
                            "simulate --rule torch --initial-scale 4 --interval 2 x.x"}) {
    for (const char* redirection : {" >/dev/full", " >&-"}) {
      const Outcome outcome = run({"sh", "-c", command_path() + " " + words + redirection});
      EXPECT_EQ(outcome.status, 1) << words;
      EXPECT_NE(outcome.err.find("cannot write to standard output: "), std::string::npos) << outcome.err;
    }
  }
}

TEST(Run, ChildrenThatOutliveASuccessfulRunEndWithIt) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run(launch(1, "sleep 1000 >/dev/null 2>&1 & echo $! > " + folder.file("pid") + "; exit 0"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  pid_t child = 0;
  std::ifstream(folder.file("pid")) >> child;
  ASSERT_GT(child, 0);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!gone(child) && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(gone(child));
}

TEST(Run, RanksDieWithTheLauncher) {
  Process process(launch(1, "echo $$; exec sleep 1000"));
  ASSERT_TRUE(process.wait_for("\n"));
  kill(process.pid(), SIGKILL);
  const Outcome outcome = process.finish();
  const pid_t rank = std::stoi(outcome.out.substr(4));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!gone(rank) && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(gone(rank));
}

TEST(Run, ProgramThatDoesNotExistIsNamed) {
  const Outcome outcome =
      run({command_path(), "run", "-n", "2", "--no-plugin", "--nccl", "system", "--", "/no/such/program"});
  EXPECT_EQ(outcome.status, 127);
  EXPECT_NE(outcome.err.find("'/no/such/program'"), std::string::npos) << outcome.err;
}

// The launcher itself must not carry the plugin, or it would be a rank as well.
TEST(Run, PluginIsPreloadedIntoTheRanksOnly) {
  Process process({command_path(), "run", "-n", "1", "--nccl", "system", "--", "sh", "-c",
                   "echo preload=$LD_PRELOAD; grep -c /libstepgate.so /proc/$$/maps; sleep 1000"});
  ASSERT_TRUE(process.wait_for("preload=")) << process.finish(std::chrono::seconds(1)).err;
  ASSERT_TRUE(process.wait_for("\n[0] "));
  std::ifstream maps("/proc/" + std::to_string(process.pid()) + "/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>()};
  EXPECT_EQ(text.find("libstepgate"), std::string::npos);
  kill(process.pid(), SIGTERM);
  const Outcome outcome = process.finish();
  EXPECT_NE(outcome.out.find(STEPGATE_TEST_LIB "/libstepgate.so"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("[0] 0\n"), std::string::npos) << outcome.out;
}

TEST(Run, UnknownSettingOfStepgateIsWarnedOf) {
  const Outcome outcome =
      run(launch(1, "true", {"--set", "STEPGATE_INTERVALL=3", "--set", "STEPGATE_LOG=off", "--set", "X=1"}));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err,
            "stepgate run: nothing reads STEPGATE_INTERVALL (--set); the nearest known name is "
            "STEPGATE_INTERVAL\n");
}

TEST(Run, LibrariesThatAreNoneAreRefused) {
  const TemporaryFolder folder;
  const std::string text = folder.file("libnccl.so.2");
  std::ofstream(text) << "no library\n";
  const std::string host = STEPGATE_TEST_LIB "/hostnccl/libnccl.so.2";
  const std::pair<const char*, std::string> wrong[] = {
      {"--nccl", text},      {"--nccl", folder.file("")}, {"--nccl", folder.file("none")},
      {"--nccl", "/bin/sh"}, {"--plugin", text},          {"--plugin", folder.file("none")},
      {"--plugin", host},    {"--plugin", "/tmp"}};
  for (const auto& [option, path] : wrong) {
    const Outcome outcome = run({command_path(), "run", "-n", "1", option, path, "--", "true"});
    EXPECT_EQ(outcome.status, 2) << option << " " << path;
    EXPECT_NE(outcome.err.find(std::string(option) + " is '" + path + "'; allowed: "), std::string::npos)
        << outcome.err;
  }
  for (const std::string& right : {host, std::string(STEPGATE_TEST_LIB "/hostnccl")}) {
    const Outcome outcome =
        run({command_path(), "run", "-n", "1", "--no-plugin", "--nccl", right, "--", "true"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
}

TEST(Run, NoPluginLeavesItOut) {
  EXPECT_EQ(run(launch(1, "echo \"preload=${LD_PRELOAD-}\""), {{"LD_PRELOAD", ""}}).out, "[0] preload=\n");
}

TEST(Run, HostNcclComesThroughTheLibraryPath) {
  const Outcome outcome = run({command_path(), "run", "-n", "1", "--no-plugin", "--nccl", "host", "--", "sh",
                               "-c", "echo $LD_LIBRARY_PATH"},
                              {{"LD_LIBRARY_PATH", "/elsewhere"}});
  EXPECT_EQ(outcome.out, "[0] " STEPGATE_TEST_LIB "/hostnccl:/elsewhere\n") << outcome.err;
}

struct BadCase {
  Words words;
  std::string says;
};

class RunRefuses : public testing::TestWithParam<BadCase> {};

TEST_P(RunRefuses, WithStatus2AndTheReason) {
  Words words = {command_path(), "run"};
  words.insert(words.end(), GetParam().words.begin(), GetParam().words.end());
  const Outcome outcome = run(words);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find(GetParam().says), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

INSTANTIATE_TEST_SUITE_P(
    BadArguments, RunRefuses,
    testing::Values(BadCase{{"--", "true"}, "-n is missing"}, BadCase{{"-n", "2"}, "the program is missing"},
                    BadCase{{"-n", "0", "true"}, "-n is '0'; allowed: a whole number from 1 to 1024"},
                    BadCase{{"-n", "two", "true"}, "-n is 'two'"},
                    BadCase{{"-n", "2", "--mode", "on", "true"}, "'on'; allowed: off, observe, enforce"},
                    BadCase{{"-n", "2", "--set", "=x", "true"}, "--set is '=x'; allowed: NAME=VALUE"},
                    BadCase{{"-n", "2", "--set", "RANK=1", "true"}, "--set is 'RANK=1'"},
                    BadCase{{"-n", "2", "--mode", "off", "--set", "STEPGATE_MODE=observe", "true"},
                            "--set is 'STEPGATE_MODE=observe'; allowed: --mode off or"},
                    BadCase{{"-n", "2", "--grace", "-1", "true"}, "--grace is '-1'"},
                    BadCase{{"-n", "2", "--colour", "true"}, "unknown option '--colour'"},
                    BadCase{{"-n"}, "-n needs a value"},
                    BadCase{{"-n", "2", "--no-plugin=yes", "true"}, "--no-plugin is 'yes'"}));

TEST(Command, HelpAndVersion) {
  EXPECT_EQ(run({command_path(), "--version"}).out, "stepgate " STEPGATE_TEST_VERSION "\n");
  EXPECT_EQ(run({command_path(), "run", "--help"}).status, 0);
  EXPECT_EQ(run({command_path(), "simulate", "--help"}).status, 0);
  EXPECT_NE(run({command_path(), "--help"}).out.find("simulate"), std::string::npos);
  EXPECT_EQ(run({command_path()}).status, 2);
  EXPECT_EQ(run({command_path(), "fly"}).status, 2);
  const Outcome more = run({command_path(), "--version", "extra"});
  EXPECT_EQ(more.status, 2);
  EXPECT_EQ(more.err, "stepgate: what follows --version is 'extra'; allowed: nothing\n");
}

// Refused before anything is installed or built.
TEST(Quickstart, LeadingZerosAreRefused) {
  for (const char* option : {"--steps", "--ranks"}) {
    const Outcome outcome = run({"sh", STEPGATE_TEST_SOURCE "/integration/quickstart.sh", option, "0100"}, {},
                                std::chrono::seconds(20));
    EXPECT_EQ(outcome.status, 2);
    EXPECT_NE(outcome.err.find(std::string(option) + " is '0100'; allowed: a whole number from"),
              std::string::npos)
        << outcome.err;
  }
}

}  // namespace
}  // namespace stepgate::test

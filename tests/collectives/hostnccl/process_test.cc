// Ranks as processes: the real thing between address spaces, death, deadlines, fork, environment.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

extern char** environ;

namespace stepgate::hostnccl::test {
namespace {

using Words = std::vector<std::string>;

// A running hostnccl_worker and the reading end of its output. It ends itself after a minute.
class Worker {
 public:
  Worker(const Words& arguments, const Words& settings) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    Words command = {HOSTNCCL_WORKER};
    command.insert(command.end(), arguments.begin(), arguments.end());
    EXPECT_EQ(posix_spawn(&pid_, HOSTNCCL_WORKER, &actions, nullptr, pointers(&command).data(),
                          environment(settings).data()),
              0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }
  ~Worker() { fclose(output_); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  std::string line() {
    std::string text;
    for (int c = fgetc(output_); c != EOF && c != '\n'; c = fgetc(output_)) text += static_cast<char>(c);
    return text;
  }
  std::string rest() {
    std::string text;
    for (int c = fgetc(output_); c != EOF; c = fgetc(output_)) text += static_cast<char>(c);
    return text;
  }
  // The exit status as waitpid has it.
  int end() {
    int status = -1;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    return status;
  }

 private:
  static std::vector<char*> pointers(Words* words) {
    std::vector<char*> result;
    for (std::string& word : *words) result.push_back(word.data());
    result.push_back(nullptr);
    return result;
  }
  // The settings first: getenv takes the first of a name.
  std::vector<char*> environment(const Words& settings) {
    settings_ = settings;
    std::vector<char*> result = pointers(&settings_);
    result.pop_back();
    for (char** entry = environ; *entry != nullptr; ++entry) result.push_back(*entry);
    result.push_back(nullptr);
    return result;
  }

  pid_t pid_ = -1;
  FILE* output_ = nullptr;
  Words settings_;
};

struct Ended {
  int status;
  std::string output;
};

std::vector<Ended> run(const std::string& mode, int size, const Words& settings = {}) {
  std::vector<std::unique_ptr<Worker>> workers;
  const std::string ranks = std::to_string(size);
  workers.push_back(std::make_unique<Worker>(Words{mode, "0", ranks}, settings));
  const std::string id = workers[0]->line();
  for (int rank = 1; rank < size; ++rank) {
    workers.push_back(std::make_unique<Worker>(Words{mode, std::to_string(rank), ranks, id}, settings));
  }
  std::vector<Ended> ends;
  for (auto& worker : workers) {
    std::string output = worker->rest();
    ends.push_back({worker->end(), std::move(output)});
  }
  return ends;
}

void expect_all_done(const std::vector<Ended>& ends, std::size_t but_the_last = 0) {
  for (std::size_t rank = 0; rank + but_the_last < ends.size(); ++rank) {
    EXPECT_EQ(ends[rank].status, 0) << "rank " << rank << ": " << ends[rank].output;
    EXPECT_TRUE(ends[rank].output.ends_with("done\n")) << "rank " << rank << ": " << ends[rank].output;
  }
}

struct Setup {
  int size;
  const char* transport;
};

void PrintTo(const Setup& setup, std::ostream* out) {
  *out << setup.transport << setup.size;
}

class Processes : public testing::TestWithParam<Setup> {
 protected:
  Words settings() const {
    return {std::string("STEPGATE_HOSTNCCL_TRANSPORT=") + GetParam().transport,
            "STEPGATE_HOSTNCCL_TIMEOUT=40"};
  }
};

TEST_P(Processes, AllReduceFromOneElementToMillions) {
  expect_all_done(run("work", GetParam().size, settings()));
}

TEST_P(Processes, DeadPeerIsNamedAndTheOthersLeave) {
  const std::vector<Ended> ends = run("lose", GetParam().size, settings());
  expect_all_done(ends, 1);
  EXPECT_TRUE(WIFSIGNALED(ends.back().status) && WTERMSIG(ends.back().status) == SIGKILL);
}

TEST_P(Processes, MessagesPassBetweenAll) {
  expect_all_done(run("pairs", GetParam().size, settings()));
}

TEST_P(Processes, DeadSenderIsNamed) {
  expect_all_done(run("lose-sender", GetParam().size, settings()), 1);
}

TEST_P(Processes, DeadReceiverIsNamed) {
  expect_all_done(run("lose-receiver", GetParam().size, settings()), 1);
}

TEST_P(Processes, SplitCommunicatorsWork) {
  expect_all_done(run("split", GetParam().size, settings()));
}

TEST_P(Processes, DeathInTheMiddleOfASplitIsNamed) {
  const std::vector<Ended> ends = run("lose-in-split", GetParam().size, settings());
  expect_all_done(ends, 1);
  EXPECT_TRUE(WIFSIGNALED(ends.back().status));
}

TEST_P(Processes, TheWorldGoesOnWithoutTheDead) {
  const std::vector<Ended> ends = run("shrink", GetParam().size, settings());
  expect_all_done(ends, 1);
  EXPECT_TRUE(WIFSIGNALED(ends.back().status));
}

TEST_P(Processes, TheWorldGoesOnWithoutItsFirstRank) {
  std::vector<Ended> ends = run("shrink-first", GetParam().size, settings());
  EXPECT_TRUE(WIFSIGNALED(ends.front().status));
  ends.erase(ends.begin());
  expect_all_done(ends);
}

// The loader finds the stand-in's driver, and hostnccl finds it loaded.
Words on_devices(Words settings) {
  settings.push_back("LD_LIBRARY_PATH=" STEPGATE_STANDIN_CUDA_FOLDER);
  settings.push_back("STEPGATE_STANDIN_DELAY_US=100");
  return settings;
}

TEST_P(Processes, AllReduceOnDeviceMemory) {
  expect_all_done(run("device", GetParam().size, on_devices(settings())));
}

TEST_P(Processes, DeadPeerIsNamedByTheCommunicatorAfterCallsOnDeviceMemory) {
  expect_all_done(run("lose-device", GetParam().size, on_devices(settings())), 1);
}

constexpr Setup kSetups[] = {{2, "auto"}, {4, "auto"}, {8, "auto"}, {2, "tcp"},
                             {3, "tcp"},  {2, "shm"},  {3, "shm"}};
INSTANTIATE_TEST_SUITE_P(Setups, Processes, testing::ValuesIn(kSetups), [](const auto& setup) {
  return std::string(setup.param.transport) + std::to_string(setup.param.size);
});

TEST(Process, RankThatNeverComesEndsAtTheDeadline) {
  Worker worker({"alone", "0", "2"}, {"STEPGATE_HOSTNCCL_TIMEOUT=1"});
  worker.line();
  const std::string output = worker.rest();
  EXPECT_EQ(worker.end(), 0) << output;
  EXPECT_NE(output.find("deadline"), std::string::npos) << output;
  EXPECT_NE(output.find("rank 1"), std::string::npos) << output;
}

TEST(Process, BadSettingsAreRefusedAtInit) {
  for (const char* setting : {"STEPGATE_HOSTNCCL_TRANSPORT=ib", "STEPGATE_HOSTNCCL_TIMEOUT=never"}) {
    Worker worker({"refuse", "0", "2"}, {setting});
    worker.line();
    const std::string output = worker.rest();
    EXPECT_EQ(worker.end(), 0) << output;
    const std::string name = std::string(setting).substr(0, std::string(setting).find('='));
    EXPECT_NE(output.find(name), std::string::npos) << output;
    EXPECT_NE(output.find("not allowed"), std::string::npos) << output;
  }
}

TEST(Process, ForkedChildIsRefusedAndHarmsNobody) {
  // The parent's other threads do not exist in the child, so the leak checker of a sanitizer build, which
  // runs at the child's exit, takes what only their stacks hold for lost.
  expect_all_done(run("fork", 2, {"STEPGATE_HOSTNCCL_TIMEOUT=40", "ASAN_OPTIONS=detect_leaks=0"}));
}

}  // namespace
}  // namespace stepgate::hostnccl::test

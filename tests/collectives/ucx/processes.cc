#include "tests/collectives/ucx/processes.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <sstream>
#include <thread>

#include "collectives/ucx/deadline.h"

extern char** environ;

namespace stepgate::transport::testing {

Process::Process(const std::vector<std::string>& arguments) {
  int ends[2];
  if (pipe(ends) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const int failed = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  EXPECT_EQ(failed, 0) << arguments[0];
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  output_ = ends[0];
}

Process::~Process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (output_ >= 0) ::close(output_);
}

void Process::signal(int number) const {
  EXPECT_EQ(::kill(pid_, number), 0);
}

std::string Process::line(double s) {
  const Deadline deadline = Deadline::after(s);
  for (;;) {
    if (const size_t end = buffered_.find('\n'); end != std::string::npos) {
      const std::string found = buffered_.substr(0, end);
      buffered_.erase(0, end + 1);
      return found;
    }
    pollfd ready{output_, POLLIN, 0};
    char bytes[512];
    if (poll(&ready, 1, deadline.milliseconds(60000)) <= 0) return "";
    const ssize_t n = ::read(output_, bytes, sizeof bytes);
    if (n <= 0) return "";
    buffered_.append(bytes, static_cast<size_t>(n));
  }
}

int Process::wait(double s) {
  const Deadline deadline = Deadline::after(s);
  int status = -1;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (deadline.passed()) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  pid_ = -1;
  return status;
}

Processes start_ranks(int size, const Setting& setting, const std::string& what) {
  const std::string hex = to_hex(new_id());
  Processes processes;
  for (int rank = 0; rank < size; ++rank)
    processes.push_back(std::make_unique<Process>(
        std::vector<std::string>{STEPGATE_RANK_PROCESS, hex, std::to_string(rank), std::to_string(size),
                                 setting.transports, std::to_string(setting.timeout_seconds), what}));
  return processes;
}

Said last_words(Process& process, double s) {
  Said said;
  std::string line = process.line(s);
  if (line == "ready") line = process.line(s);
  std::istringstream in(line);
  in >> said.status >> said.culprit;
  std::getline(in >> std::ws, said.message);
  return said;
}

}  // namespace stepgate::transport::testing

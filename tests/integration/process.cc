#include "tests/integration/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace stepgate::test {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void become(const std::vector<std::string>& words,
                         const std::map<std::string, std::string>& variables, int out, int err) {
  dup2(out, 1);
  dup2(err, 2);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

bool take(int& fd, std::string& text) {
  char buffer[65536];
  const ssize_t got = read(fd, buffer, sizeof buffer);
  if (got > 0) {
    text.append(buffer, static_cast<std::size_t>(got));
    return true;
  }
  close(fd);
  fd = -1;
  return false;
}

}  // namespace

Process::Process(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables) {
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  pid_ = fork();
  if (pid_ == 0) become(words, variables, out[1], err[1]);
  close(out[1]);
  close(err[1]);
  out_fd_ = out[0];
  err_fd_ = err[0];
}

Process::~Process() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (out_fd_ >= 0) close(out_fd_);
  if (err_fd_ >= 0) close(err_fd_);
}

// False when both pipes are at their end, or at the deadline.
bool Process::read_once(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd waits[2] = {{out_fd_, POLLIN, 0}, {err_fd_, POLLIN, 0}};
  if ((out_fd_ < 0 && err_fd_ < 0) || left <= 0) return false;
  if (poll(waits, 2, static_cast<int>(left)) <= 0) return false;
  if (waits[0].revents != 0) take(out_fd_, outcome_.out);
  if (waits[1].revents != 0) take(err_fd_, outcome_.err);
  return true;
}

bool Process::wait_for(const std::string& text, std::chrono::seconds deadline) {
  const auto until = Clock::now() + deadline;
  while (outcome_.out.find(text) == std::string::npos) {
    if (!read_once(until)) return false;
  }
  return true;
}

bool Process::ended() const {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

int Process::reap(Clock::time_point deadline) {
  for (;;) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (Clock::now() > deadline) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

Outcome Process::finish(std::chrono::seconds deadline) {
  const auto until = Clock::now() + deadline;
  while (read_once(until)) {
  }
  outcome_.status = reap(until);
  return outcome_;
}

Outcome run(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables,
            std::chrono::seconds deadline) {
  return Process(words, variables).finish(deadline);
}

std::string command_path() {
  return STEPGATE_TEST_BIN "/stepgate";
}

std::string charlm_path() {
  return STEPGATE_TEST_BIN "/charlm";
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "stepgate-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace stepgate::test

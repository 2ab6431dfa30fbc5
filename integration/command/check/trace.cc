#include "integration/command/check/trace.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <stdexcept>
#include <thread>

namespace stepgate::command {
namespace {

using Clock = std::chrono::steady_clock;

constexpr long kOptions = PTRACE_O_EXITKILL | PTRACE_O_TRACEEXIT | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
constexpr int kNotStartedStatus = 127;
constexpr auto kPause = std::chrono::milliseconds(5);
constexpr auto kGrace = std::chrono::seconds(3);
constexpr std::size_t kMostProcesses = 16;

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

pid_t start(const std::vector<std::string>& program, const std::vector<std::string>& environment) {
  const std::vector<char*> words = pointers(program), variables = pointers(environment);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(std::string("cannot fork: ") + std::strerror(errno));
  if (child > 0) return child;
  dup2(STDERR_FILENO, STDOUT_FILENO);
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kNotStartedStatus - 1);
  execvpe(words[0], words.data(), variables.data());
  _exit(kNotStartedStatus);
}

class Tracer {
 public:
  explicit Tracer(pid_t program) : program_(program) { running_.insert(program); }

  // Until all have ended, or `deadline`.
  void run(Clock::time_point deadline) {
    while (!running_.empty() && Clock::now() < deadline) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, __WALL | WNOHANG);
      if (pid < 0 && errno == ECHILD) return running_.clear();
      if (pid <= 0) {
        std::this_thread::sleep_for(kPause);
      } else {
        handle(pid, status);
      }
    }
  }

  bool any() const { return !running_.empty(); }

  void look_at_all() {
    for (const pid_t pid : running_) look(pid);
  }

  void signal_all(int number) {
    for (const pid_t pid : running_) kill(pid, number);
  }

  TraceResult result;

 private:
  void look(pid_t pid) {
    ProcessFindings found = look_at_process(pid);
    const bool wanted = found.concerned() || pid == program_;
    if (wanted && result.processes.size() < kMostProcesses) result.processes.push_back(std::move(found));
  }

  void go_on(pid_t pid, int signal_number) {
    ptrace(PTRACE_CONT, pid, nullptr, static_cast<long>(signal_number));
  }

  void handle(pid_t pid, int status) {
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (pid == program_) {
        result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      running_.erase(pid);
      return;
    }
    const bool known = running_.contains(pid);
    const bool first = !known || !set_.contains(pid);
    running_.insert(pid);
    if (first) {
      set_.insert(pid);
      ptrace(PTRACE_SETOPTIONS, pid, nullptr, kOptions);
    }
    const int event = status >> 16, number = WSTOPSIG(status);
    if (event == PTRACE_EVENT_EXIT) look(pid);
    // What stops the process for our sake is not its own signal.
    const bool ours = event != 0 || number == SIGTRAP || (first && number == SIGSTOP);
    go_on(pid, ours ? 0 : number);
  }

  pid_t program_;
  std::set<pid_t> running_, set_;
};

}  // namespace

TraceResult trace_program(const std::vector<std::string>& program,
                          const std::vector<std::string>& environment, double seconds) {
  Tracer tracer(start(program, environment));
  tracer.run(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
  if (tracer.any()) {
    tracer.result.ended_by_us = true;
    tracer.look_at_all();
    tracer.signal_all(SIGTERM);
    // What has been looked at once is not looked at again while it ends.
    std::vector<ProcessFindings> kept = std::move(tracer.result.processes);
    tracer.run(Clock::now() + kGrace);
    tracer.signal_all(SIGKILL);
    tracer.run(Clock::now() + kGrace);
    tracer.result.processes = std::move(kept);
  }
  if (tracer.result.status == kNotStartedStatus && tracer.result.processes.empty()) {
    throw std::runtime_error("cannot start " + program[0]);
  }
  if (tracer.result.status == kNotStartedStatus - 1 && tracer.result.processes.empty()) {
    throw std::runtime_error(
        "this place forbids ptrace, which check needs to look at a program that it starts; "
        "start it yourself and use --pid");
  }
  return std::move(tracer.result);
}

}  // namespace stepgate::command

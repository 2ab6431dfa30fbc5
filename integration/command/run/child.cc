#include "integration/command/run/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace stepgate::command {
namespace {

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::system_error(error, std::generic_category(), what);
}

struct Pipe {
  int read_end = -1;
  int write_end = -1;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("a pipe for a rank", errno);
  return {ends[0], ends[1]};
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

void reset_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
}

// Everything between fork and exec: calls that are safe there, and no allocation.
[[noreturn]] void become_rank(char* const* program, char* const* environment, int out, int err, int report,
                              pid_t launcher) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The launcher may have gone before that took effect.
  if (getppid() != launcher) _exit(127);
  setpgid(0, 0);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, 0);
  dup2(out, 1);
  dup2(err, 2);
  reset_signals();
  execvpe(program[0], program, environment);
  const int error = errno;
  // The launcher reads this; if it is gone, there is nobody left to tell.
  if (write(report, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

// Zero when exec succeeded: the pipe closed without a word.
int exec_error(int report) {
  int error = 0;
  ssize_t got;
  do {
    got = read(report, &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof error) ? error : 0;
}

int non_blocking(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  return fd;
}

}  // namespace

StartedRank start_rank(unsigned rank, const std::vector<std::string>& program,
                       const std::vector<std::string>& environment, Output& out_target, Output& err_target) {
  const std::vector<char*> arguments = pointers(program);
  const std::vector<char*> variables = pointers(environment);
  const Pipe out = make_pipe();
  const Pipe err = make_pipe();
  const Pipe report = make_pipe();
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid < 0) fail("starting rank " + std::to_string(rank), errno);
  if (pid == 0) {
    become_rank(arguments.data(), variables.data(), out.write_end, err.write_end, report.write_end, launcher);
  }
  // Also here: a signal sent right after must find the group.
  setpgid(pid, pid);
  for (const int fd : {out.write_end, err.write_end, report.write_end}) close(fd);
  const int error = exec_error(report.read_end);
  close(report.read_end);
  const std::string prefix = "[" + std::to_string(rank) + "] ";
  StartedRank started{pid, LinePipe(non_blocking(out.read_end), out_target, prefix),
                      LinePipe(non_blocking(err.read_end), err_target, prefix)};
  if (error != 0) {
    waitpid(pid, nullptr, 0);
    fail("cannot start '" + program[0] + "'", error);
  }
  return started;
}

}  // namespace stepgate::command

#include "integration/command/run/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace stepgate::command {
namespace {

// timeout(1) and others signal a process and its group: the same wish arrives twice.
constexpr std::chrono::milliseconds kOneWish{500};

constexpr int kOutputLostStatus = 1;

int open_signals() {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int number : {SIGCHLD, SIGINT, SIGTERM}) sigaddset(&watched, number);
  // The terminal has gone, unless that is none of our business (nohup).
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&watched, SIGHUP);
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const int fd = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
  return fd;
}

int until(std::chrono::steady_clock::time_point then) {
  const auto left = then - std::chrono::steady_clock::now();
  const auto count = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<long long>(count + 1, 0, 3'600'000));
}

bool exited(int code) {
  return code == CLD_EXITED;
}

bool failed(int code, int value) {
  return !exited(code) || value != 0;
}

}  // namespace

Supervisor::Supervisor(std::chrono::duration<double> grace) : signals_(open_signals()), grace_(grace) {}

Supervisor::~Supervisor() {
  end_groups();
  close(signals_);
}

void Supervisor::add(StartedRank rank) {
  ranks_.push_back({std::move(rank)});
}

int Supervisor::run() {
  while (!all_ended()) {
    wait_for_events();
    check_output();
    reap();
    kill_when_due();
  }
  end_groups();
  drain();
  check_output();
  return failure_.value_or(output_error_ != 0 ? kOutputLostStatus : 0);
}

bool Supervisor::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ended; });
}

int Supervisor::timeout_ms() const {
  if (!kill_at_) return -1;
  return until(*kill_at_);
}

void Supervisor::wait_for_events() {
  std::vector<pollfd> waits{{signals_, POLLIN, 0}};
  for (const Output* output : {&out_, &err_}) {
    if (output->blocked()) waits.push_back({output->fd(), POLLOUT, 0});
  }
  for (const Rank& rank : ranks_) {
    for (const LinePipe* pipe : {&rank.process.out, &rank.process.err}) {
      if (pipe->open() && !pipe->target().blocked()) waits.push_back({pipe->fd(), POLLIN, 0});
    }
  }
  if (poll(waits.data(), waits.size(), timeout_ms()) <= 0) return;
  for (Output* output : {&out_, &err_}) output->write_some();
  // None of these blocks, so there is no need to look which one it was.
  for (Rank& rank : ranks_) {
    rank.process.out.read_some();
    rank.process.err.read_some();
  }
  read_signals();
}

void Supervisor::read_signals() {
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    handle_signal(static_cast<int>(info.ssi_signo));
  }
}

void Supervisor::handle_signal(int signal_number) {
  if (signal_number == SIGCHLD) return;  // reap() looks at every rank anyway
  const Clock::time_point now = Clock::now();
  if (!interrupted_at_) {
    interrupted_at_ = now;
    // Ranks are groups of their own: a hangup is not theirs, and most would die of it without a last word.
    signal_running(signal_number == SIGHUP ? SIGTERM : signal_number);
    set_deadline();
    give_up_at_ = kill_at_;
  } else if (now - *interrupted_at_ > kOneWish) {
    say("second signal, killing all ranks");
    give_up_at_ = now;
    signal_running(SIGKILL);
  }
}

// Ranks that are seen to have ended in one go are ordered by how: a rank that a signal ended is
// rather the cause, one that exited with an error rather found a peer gone.
void Supervisor::reap() {
  std::vector<Exit> exits = ended_now();
  std::stable_sort(exits.begin(), exits.end(),
                   [](const Exit& a, const Exit& b) { return !exited(a.code) && exited(b.code); });
  for (const Exit& exit : exits) record(exit);
}

std::vector<Supervisor::Exit> Supervisor::ended_now() {
  std::vector<Exit> exits;
  for (unsigned i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    if (rank.ended) continue;
    siginfo_t info{};
    const auto id = static_cast<id_t>(rank.process.pid);
    if (waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) continue;
    // While the rank is a zombie its group's number cannot be anybody else's.
    if (failed(info.si_code, info.si_status)) kill(-rank.process.pid, SIGKILL);
    rank.ended = true;
    exits.push_back({i, info.si_code, info.si_status});
  }
  return exits;
}

void Supervisor::record(const Exit& exit) {
  if (!failed(exit.code, exit.value) || failure_) return;
  // Its last words come first.
  ranks_[exit.rank].process.out.read_some();
  ranks_[exit.rank].process.err.read_some();
  failure_ = exited(exit.code) ? exit.value : 128 + exit.value;
  tell(exit);
  end_others();
}

void Supervisor::tell(const Exit& exit) {
  const std::string how = exited(exit.code)
                              ? "exit status " + std::to_string(exit.value)
                              : "signal " + std::to_string(exit.value) + " (" + strsignal(exit.value) + ")";
  say("rank " + std::to_string(exit.rank) + " failed first: " + how);
}

// Without a reader nobody learns what the ranks do, so they end, as programs in a pipe do. A full disk
// costs output alone: a run of hours goes on, and its exit status tells.
void Supervisor::check_output() {
  if (output_error_ != 0) return;
  for (const Output* output : {&out_, &err_}) {
    if (output->error() == 0) continue;
    output_error_ = output->error();
    const bool nobody_reads = output_error_ == EPIPE;
    say(std::string("cannot write to standard ") + (output == &out_ ? "output: " : "error: ") +
        strerror(output_error_) + (nobody_reads ? "; ending all ranks" : ""));
    if (nobody_reads && !failure_) failure_ = kOutputLostStatus;
    if (nobody_reads) end_others();
    return;
  }
}

void Supervisor::end_others() {
  if (all_ended()) return;
  signal_running(SIGTERM);
  // A stopped rank takes its TERM only when it continues.
  signal_running(SIGCONT);
  set_deadline();
}

// An earlier one stays.
void Supervisor::set_deadline() {
  const Clock::time_point then = Clock::now() + std::chrono::duration_cast<Clock::duration>(grace_);
  if (!kill_at_ || then < *kill_at_) kill_at_ = then;
}

void Supervisor::kill_when_due() {
  if (!kill_at_ || Clock::now() < *kill_at_) return;
  kill_at_.reset();
  for (unsigned i = 0; i < ranks_.size(); ++i) {
    if (!ranks_[i].ended) say("rank " + std::to_string(i) + " did not end, killing it");
  }
  signal_running(SIGKILL);
}

void Supervisor::signal_running(int signal_number) {
  for (const Rank& rank : ranks_) {
    if (!rank.ended) kill(-rank.process.pid, signal_number);
  }
}

// Whatever ranks left running in their groups.
void Supervisor::end_groups() {
  for (Rank& rank : ranks_) {
    if (rank.reaped) continue;
    kill(-rank.process.pid, SIGKILL);
    waitpid(rank.process.pid, nullptr, 0);
    rank.ended = rank.reaped = true;
  }
}

// Takes what is there and does not wait for more: a process that has left a rank's group may keep the
// pipe open for ever.
void Supervisor::drain() {
  for (Rank& rank : ranks_) {
    for (LinePipe* pipe : {&rank.process.out, &rank.process.err}) {
      pipe->read_some();
      while (pipe->open() && pipe->target().blocked() && wait_for_outputs()) pipe->read_some();
      pipe->finish();
    }
  }
  while ((out_.blocked() || err_.blocked()) && wait_for_outputs()) {
  }
}

// A reader may pause as long as it likes, unless somebody has asked for the end. False: given up.
bool Supervisor::wait_for_outputs() {
  if (give_up_at_ && Clock::now() >= *give_up_at_) {
    if (output_error_ == 0) say("nobody took the rest of the output in time; it is lost");
    output_error_ = ETIMEDOUT;
    return false;
  }
  std::vector<pollfd> waits{{signals_, POLLIN, 0}};
  for (const Output* output : {&out_, &err_}) {
    if (output->blocked()) waits.push_back({output->fd(), POLLOUT, 0});
  }
  poll(waits.data(), waits.size(), give_up_at_ ? until(*give_up_at_) : -1);
  for (Output* output : {&out_, &err_}) output->write_some();
  read_signals();
  return true;
}

}  // namespace stepgate::command

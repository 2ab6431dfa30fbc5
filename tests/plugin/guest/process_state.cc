#include "tests/plugin/guest/process_state.h"

#include <immintrin.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

extern char** environ;

namespace stepgate::test {
namespace {

std::string hex(const void* data, std::size_t bytes) {
  std::string text;
  char two[3];
  for (std::size_t i = 0; i < bytes; ++i) {
    std::snprintf(two, sizeof two, "%02x", static_cast<const unsigned char*>(data)[i]);
    text += two;
  }
  return text;
}

// glibc hands out 128 bytes of mask for 64 signals.
constexpr std::size_t kMaskBytes = 8;
// The kernel's word that glibc once set the action; it changes nothing for the job.
constexpr int kRestorer = 0x04000000;

void add_signals(ProcessState& state) {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) != 0) continue;
    state.push_back("signal " + std::to_string(number) + " handler " +
                    hex(&action.sa_handler, sizeof action.sa_handler) + " flags " +
                    std::to_string(action.sa_flags & ~kRestorer) + " mask " +
                    hex(&action.sa_mask, kMaskBytes));
  }
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  state.push_back("blocked signals " + hex(&mask, kMaskBytes));
  stack_t stack{};
  sigaltstack(nullptr, &stack);
  state.push_back("signal stack " + hex(&stack.ss_sp, sizeof stack.ss_sp));
}

void add_floating_point(ProcessState& state) {
  const unsigned mxcsr = _mm_getcsr();
  std::uint16_t x87 = 0;
  __asm__ volatile("fnstcw %0" : "=m"(x87));
  state.push_back("mxcsr " + hex(&mxcsr, sizeof mxcsr));
  state.push_back("x87 control word " + hex(&x87, sizeof x87));
}

void add_limits(ProcessState& state) {
  for (int which = 0; which < static_cast<int>(RLIM_NLIMITS); ++which) {
    rlimit limit{};
    getrlimit(static_cast<__rlimit_resource>(which), &limit);
    state.push_back("limit " + std::to_string(which) + " " + hex(&limit, sizeof limit));
  }
  for (const auto which : {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF}) {
    itimerval timer{};
    getitimer(which, &timer);
    state.push_back("timer " + std::to_string(which) + (timer.it_value.tv_sec != 0 ? " runs" : " is off"));
  }
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  sched_getaffinity(0, sizeof cpus, &cpus);
  state.push_back("processors " + hex(&cpus, 16));
}

void add_names(ProcessState& state) {
  char folder[4096] = "", name[32] = "";
  const mode_t mask = umask(0);
  umask(mask);
  prctl(PR_GET_NAME, name);
  state.push_back("umask " + std::to_string(mask));
  state.push_back(std::string("folder ") + (getcwd(folder, sizeof folder) != nullptr ? folder : "?"));
  state.push_back(std::string("thread name ") + name);
  state.push_back(std::string("locale ") + setlocale(LC_ALL, nullptr));
  state.push_back("dumpable " + std::to_string(prctl(PR_GET_DUMPABLE)));
  state.push_back("nice " + std::to_string(getpriority(PRIO_PROCESS, 0)));
}

}  // namespace

ProcessState process_state() {
  ProcessState state;
  add_floating_point(state);  // first: what follows computes nothing, but nobody promises that
  add_signals(state);
  add_limits(state);
  add_names(state);
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    state.push_back(std::string("environment ") + *variable);
  }
  return state;
}

std::vector<std::string> changes(const ProcessState& before, const ProcessState& after) {
  std::vector<std::string> list;
  for (const std::string& line : before) {
    if (std::find(after.begin(), after.end(), line) == after.end()) list.push_back("gone: " + line);
  }
  for (const std::string& line : after) {
    if (std::find(before.begin(), before.end(), line) == before.end()) list.push_back("new: " + line);
  }
  return list;
}

}  // namespace stepgate::test

// Around every call: does the process look as before?
#include <immintrin.h>
#include <signal.h>

#include <cstdio>
#include <cstring>

#include "tests/plugin/guest/modes.h"
#include "tests/plugin/guest/process_state.h"

namespace stepgate::test {
namespace {

void on_signal(int) {}

// A job that uses what it can: flush to zero, another rounding, traps on invalid operations and on
// division by zero, handlers with flags and masks of their own, some signals blocked.
void make_peculiar() {
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040, kRoundUp = 0x4000;
  constexpr unsigned kMaskInvalid = 0x0080, kMaskDivision = 0x0200;
  _mm_setcsr((0x1f80 | kFlushToZero | kDenormalsAreZero | kRoundUp) & ~(kMaskInvalid | kMaskDivision));
  for (const int number : {SIGUSR1, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM, SIGCHLD}) {
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART | SA_NODEFER;
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(number, &action, nullptr);
  }
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGWINCH);
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
}

// The host NCCL's own arithmetic may be inexact; no other flag is allowed to it, and none to the plugin.
constexpr unsigned kInexact = 0x0020;

class Watch {
 public:
  // Runs call(), prints its name, and what it changed.
  template <class Call>
  void operator()(const char* name, Call call) {
    const ProcessState before = process_state();
    const unsigned flags = _mm_getcsr();
    const int result = static_cast<int>(call());
    if (std::strncmp(name, "nccl", 4) == 0 && (flags & kInexact) == 0) _mm_setcsr(_mm_getcsr() & ~kInexact);
    const ProcessState after = process_state();
    std::printf("called %s %d\n", name, result);
    for (const std::string& change : changes(before, after)) {
      std::printf("changed by %s: %s\n", name, change.c_str());
    }
    std::fflush(stdout);
  }
};

#define STEPGATE_WATCH(name, ...) watch(#name, [&] { return STEPGATE_SYMBOL(name)(__VA_ARGS__); })

void collectives(Watch& watch, Job& job) {
  float* const to = job.scratch().data();
  const float* const from = job.gradient().data();
  const std::size_t n = 512;
  const ncclComm_t comm = job.comm();
  const int peer = job.where().world - 1 - job.where().rank;
  STEPGATE_WATCH(ncclAllReduce, from, to, n, ncclFloat32, ncclSum, comm, nullptr);
  STEPGATE_WATCH(ncclReduceScatter, from, to, n, ncclFloat32, ncclSum, comm, nullptr);
  STEPGATE_WATCH(ncclReduce, from, to, n, ncclFloat32, ncclMax, 0, comm, nullptr);
  STEPGATE_WATCH(ncclAllGather, from, to, n, ncclFloat32, comm, nullptr);
  STEPGATE_WATCH(ncclAlltoAll, from, to, n, ncclFloat32, comm, nullptr);
  STEPGATE_WATCH(ncclBroadcast, from, to, n, ncclFloat32, 0, comm, nullptr);
  STEPGATE_WATCH(ncclBcast, to, n, ncclFloat32, 0, comm, nullptr);
  STEPGATE_WATCH(ncclGather, from, to, n, ncclFloat32, 0, comm, nullptr);
  STEPGATE_WATCH(ncclScatter, from, to, n, ncclFloat32, 0, comm, nullptr);
  STEPGATE_WATCH(ncclGroupStart);
  STEPGATE_WATCH(ncclSend, from, n, ncclFloat32, peer, comm, nullptr);
  STEPGATE_WATCH(ncclRecv, to, n, ncclFloat32, peer, comm, nullptr);
  STEPGATE_WATCH(ncclGroupEnd);
  ncclResult_t state = ncclSuccess;
  STEPGATE_WATCH(ncclCommGetAsyncError, comm, &state);
  float two = 2;
  ncclRedOp_t op = ncclSum;
  STEPGATE_WATCH(ncclRedOpCreatePreMulSum, &op, &two, ncclFloat32, ncclScalarHostImmediate, comm);
  STEPGATE_WATCH(ncclRedOpDestroy, op, comm);
  STEPGATE_SYMBOL(ncclGroupStart)();
  STEPGATE_WATCH(ncclGroupSimulateEnd, nullptr);
  STEPGATE_SYMBOL(ncclGroupEnd)();  // in case the simulation left the group open; else an error
}

void communicators(Watch& watch, Job& job) {
  const Where& w = job.where();
  ncclUniqueId first = shared_id(w, 1), second = shared_id(w, 2), third = shared_id(w, 3);
  ncclComm_t a = nullptr, b = nullptr, c = nullptr, alone = nullptr, half = nullptr, rest = nullptr;
  const int last = w.world - 1;
  int excluded[] = {last};
  STEPGATE_WATCH(ncclCommInitRank, &a, w.world, first, w.rank);
  STEPGATE_WATCH(ncclCommInitRankConfig, &b, w.world, second, w.rank, nullptr);
  STEPGATE_WATCH(ncclCommInitRankScalable, &c, w.world, w.rank, 1, &third, nullptr);
  STEPGATE_WATCH(ncclCommInitAll, &alone, 1, nullptr);
  STEPGATE_WATCH(ncclCommSplit, a, 0, w.rank, &half, nullptr);
  // The last rank is told that it is not the one to call; in a world of one nobody is left.
  STEPGATE_WATCH(ncclCommShrink, a, excluded, 1, &rest, nullptr, 0);
  STEPGATE_WATCH(ncclCommRevoke, b != nullptr ? b : a, 0);
  STEPGATE_WATCH(ncclCommAbort, b != nullptr ? b : a);
  if (b != nullptr) {
    STEPGATE_WATCH(ncclCommFinalize, a);
    STEPGATE_WATCH(ncclCommDestroy, a);
  }
  for (ncclComm_t left : {c, alone, half, rest}) {
    if (left != nullptr) STEPGATE_SYMBOL(ncclCommDestroy)(left);
  }
}

void lifecycle(Watch& watch, Job& job) {
  stepgate_gate* const gate = job.gate();
  float* const data = job.gradient().data();
  const std::size_t n = job.gradient().size();
  stepgate_decision decision{};
  decision.size = sizeof decision;
  watch("step_begin", [&] { return stepgate_client_step_begin(gate, nullptr); });
  job.gradient().fill(std::vector<float>(n, 1e-40f));
  STEPGATE_WATCH(ncclAllReduce, data, data, n, ncclFloat32, ncclSum, job.comm(), nullptr);
  watch("veto", [&] { return stepgate_client_veto(gate, nullptr); });
  watch("step_end", [&] { return stepgate_client_step_end(gate, 0, nullptr); });
  watch("step_wait", [&] { return stepgate_client_step_wait(gate, 0, &decision); });
  watch("apply", [&] { return stepgate_client_apply(gate, 0, nullptr); });
  static const float scale = 128;
  watch("external_scale", [&] { return stepgate_client_external_scale(gate, &scale); });
  watch("observe", [&] {
    return stepgate_client_observe(gate, "x", data, n, STEPGATE_FP32, STEPGATE_PHASE_FORWARD, nullptr);
  });
  watch("observe_update", [&] {
    return stepgate_client_observe_update(gate, "x", data, data, data, n, STEPGATE_FP32, nullptr);
  });
  watch("nccl, a whole step", [&] { return job.step(), 0; });
  watch("scrape", [&] { return job.scraped(2) ? 0 : 1; });
  watch("enforce_end", [&] { return stepgate_client_enforce_end(gate, nullptr); });
  watch("gate_destroy", [&] { return stepgate_client_gate_destroy(gate); });
}

}  // namespace

int mode_calls(const Where& where) {
  make_peculiar();
  Watch watch;
  ncclComm_t comm = nullptr;
  Job* job = nullptr;
  watch("nccl, first of all", [&] { return comm = Job::connect(where), 0; });
  watch("start-up", [&] { return job = new Job(where, comm), 0; });
  watch("nccl, all meet", [&] { return job->meet(), 0; });
  collectives(watch, *job);
  communicators(watch, *job);
  lifecycle(watch, *job);
  return 0;
}

}  // namespace stepgate::test

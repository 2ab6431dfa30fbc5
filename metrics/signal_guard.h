// SignalGuard: keeps the making of foreign threads from touching the job's signals. While it lives,
// the calling thread blocks every asynchronous signal (threads made meanwhile inherit the mask, so a
// handler of the job never runs on them) and at its end SIGPIPE has the disposition it had before.
//
// Thread: made and destroyed by one thread. Faults (SIGSEGV and its like) stay unblocked: blocked,
// they would kill without the job's crash handler having its say.
#pragma once

#include <csignal>

namespace stepgate::metrics {

class SignalGuard {
 public:
  SignalGuard() noexcept;
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  sigset_t mask_;
  struct sigaction pipe_;
};

}  // namespace stepgate::metrics

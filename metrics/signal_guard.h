// SignalGuard: keeps the making of foreign threads from touching the job's signals. While it lives,
// the calling thread blocks every asynchronous signal (blocked_signals.h), and at its end SIGPIPE has the
// disposition it had before.
//
// Thread: made and destroyed by one thread.
#pragma once

#include <csignal>

#include "collectives/signals/blocked_signals.h"

namespace stepgate::metrics {

class SignalGuard {
 public:
  SignalGuard() noexcept;
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  struct sigaction pipe_;
  signals::BlockedSignals blocked_;
};

}  // namespace stepgate::metrics

#include "metrics/signal_guard.h"

#include <array>

namespace stepgate::metrics {

SignalGuard::SignalGuard() noexcept {
  sigset_t block;
  sigfillset(&block);
  for (const int fault : std::array{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
    sigdelset(&block, fault);
  }
  pthread_sigmask(SIG_BLOCK, &block, &mask_);
  sigaction(SIGPIPE, nullptr, &pipe_);
}

SignalGuard::~SignalGuard() {
  // Only where it was changed to "ignored" meanwhile: another thread of the job may have set its own.
  struct sigaction now {};
  sigaction(SIGPIPE, nullptr, &now);
  if (now.sa_handler == SIG_IGN) sigaction(SIGPIPE, &pipe_, nullptr);
  pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
}

}  // namespace stepgate::metrics

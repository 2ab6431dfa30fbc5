#include "metrics/signal_guard.h"

namespace stepgate::metrics {

SignalGuard::SignalGuard() noexcept {
  sigaction(SIGPIPE, nullptr, &pipe_);
}

SignalGuard::~SignalGuard() {
  // Only where it was changed to "ignored" meanwhile: another thread of the job may have set its own.
  struct sigaction now {};
  sigaction(SIGPIPE, nullptr, &now);
  if (now.sa_handler == SIG_IGN) sigaction(SIGPIPE, &pipe_, nullptr);
}

}  // namespace stepgate::metrics

// BlockedSignals: hold one while making a thread, one of ours or a library's. Threads inherit the mask of
// their maker, so a handler of the job never runs on them.
//
// Thread: made and destroyed by one thread, whose own mask is restored at the end. Faults (SIGSEGV and its
// like) stay unblocked: a blocked one kills without the job's crash handler having its say.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace stepgate::signals {

class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t block;
    sigfillset(&block);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      sigdelset(&block, fault);
    pthread_sigmask(SIG_BLOCK, &block, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace stepgate::signals

// Threads inherit the signal mask of their creator. Ours, and those that UCX starts, must not take
// signals meant for the job: hold one of these while creating them. Belongs to the calling thread.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace stepgate::transport {

class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace stepgate::transport

#include "collectives/hostnccl/job.h"

#include <signal.h>

#include <system_error>
#include <utility>

namespace stepgate::hostnccl {
namespace {

// New threads inherit the mask: the job's signals stay with the job's threads.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Job::~Job() {
  if (thread_.joinable()) thread_.join();
}

Outcome Job::start(std::function<void()> work) {
  try {
    const AllSignalsBlocked blocked;
    thread_ = std::thread([this, work = std::move(work)]() mutable {
      work();
      work = nullptr;
      finish();
    });
    return success();
  } catch (const std::system_error& error) {
    finish();
    return {ncclSystemError, std::string("no thread for a call that does not block: ") + error.what()};
  }
}

void Job::finish() {
  const std::lock_guard lock(mutex_);
  done_ = true;
  changed_.notify_all();  // under the lock: the object may go as soon as a waiter has it
}

bool Job::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

void Job::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_; });
}

}  // namespace stepgate::hostnccl

#include "collectives/hostnccl/job.h"

#include <system_error>
#include <utility>

#include "collectives/signals/blocked_signals.h"

namespace stepgate::hostnccl {

Job::~Job() {
  if (thread_.joinable()) thread_.join();
}

Outcome Job::start(std::function<void()> work) {
  try {
    const signals::BlockedSignals blocked;
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

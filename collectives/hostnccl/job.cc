#include "collectives/hostnccl/job.h"

#include <exception>
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
  } catch (const std::exception& error) {  // no thread, or no memory for one
    finish();
    return {ncclSystemError, std::string("no thread can be had: ") + error.what()};
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

// Communicator: its device and the job that works for it.
#include <algorithm>
#include <utility>

#include "collectives/hostnccl/communicator.h"

namespace stepgate::hostnccl {
namespace {

// How often a wait for the streams looks whether the communicator has been aborted.
constexpr std::chrono::milliseconds kLook{20};

}  // namespace

Outcome Communicator::adopt_device(const Cuda& cuda) {
  if (!cuda.complete().ok()) return success();  // said when a device's memory comes
  cuda::Context current = nullptr;
  const cuda::Result asked = cuda.api.CtxGetCurrent(&current);
  if (has_no_device(asked)) return success();
  if (Outcome o = cuda.told(asked, "cuCtxGetCurrent"); !o.ok()) return o;
  if (current == nullptr) return success();
  std::shared_ptr<Staging> made;
  return staging(cuda, current, &made);
}

Outcome Communicator::adopt_device_of(const Communicator& parent) {
  std::shared_ptr<Staging> theirs;
  {
    const std::lock_guard lock(parent.device_);
    theirs = parent.staging_;
  }
  std::shared_ptr<Staging> made;
  return theirs == nullptr ? success() : staging(theirs->cuda(), theirs->context(), &made);
}

Outcome Communicator::staging(const Cuda& cuda, cuda::Context context, std::shared_ptr<Staging>* staging) {
  const std::lock_guard lock(device_);
  if (staging_ == nullptr) {
    if (Outcome o = Staging::create(cuda, context, &staging_); !o.ok()) return o;
    has_staging_.store(true, std::memory_order_release);
  }
  *staging = staging_;
  return success();
}

int Communicator::device_ordinal() const {
  const std::lock_guard lock(device_);
  return staging_ != nullptr ? staging_->ordinal() : 0;
}

std::shared_ptr<Staging> Communicator::take_staging() {
  const std::lock_guard lock(device_);
  return std::exchange(staging_, nullptr);
}

Outcome Communicator::wait_until_idle() {
  if (!has_staging_.load(std::memory_order_acquire)) return success();
  std::shared_ptr<Staging> staging;
  {
    const std::lock_guard lock(device_);
    staging = staging_;
  }
  if (staging == nullptr) return success();
  const auto start = std::chrono::steady_clock::now();
  while (!staging->wait_until_idle(kLook)) {
    const std::lock_guard lock(inner_);
    if (aborted_) return broken_;
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (waited.count() < config_.timeout_seconds) continue;
    return {ncclSystemError,
            "operations that lie on streams have not run (STEPGATE_HOSTNCCL_TIMEOUT): what comes before them "
            "there is not done"};
  }
  return success();
}

void Communicator::break_with(const Outcome& why) {
  const std::lock_guard lock(inner_);
  if (!broken_.ok()) return;
  broken_ = why;
  sound_ = false;
  if (world_ != nullptr) table_->world_abort(world_);
}

void Communicator::attach(std::shared_ptr<Job> job) {
  const std::lock_guard lock(inner_);
  job_ = std::move(job);
  sound_ = false;
}

bool Communicator::in_progress_locked() {
  if (job_ == nullptr) return false;
  if (!job_->done()) return true;
  job_.reset();
  return false;
}

void Communicator::wait_for_job() {
  std::shared_ptr<Job> job;
  {
    const std::lock_guard lock(inner_);
    job = job_;
  }
  if (job != nullptr) job->wait();
}

}  // namespace stepgate::hostnccl

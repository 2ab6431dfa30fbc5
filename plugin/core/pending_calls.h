// PendingCalls: what the job has enqueued in the open step on communicators that do not block, and a helper
// thread of NCCL launches later. Until then nothing of it may be read.
//
// Threads: any. Lock: one of its own, held across nothing, so that who has nothing here learns it without
// waiting for a gate that is in the middle of a launch: watchdogs ask their communicators all day. The owner
// changes the list under its own lock; order: the owner's, then this one.
// Ownership: copies of what was asked for; memory and communicators are the job's.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "plugin/core/core_entry.h"

namespace stepgate::gate {

class PendingCalls {
 public:
  PendingCalls() { list_.reserve(kUsual); }

  // Of the calling thread: nobody else enqueues work for it. May throw, and changes nothing then.
  void hold(const Reduction& op);
  bool none() const noexcept { return size_.load(std::memory_order_acquire) == 0; }
  // Whether the calling thread has one on comm.
  bool mine(ncclComm_t comm) const noexcept;
  // The oldest that this thread, or that anybody, has on comm. False: there is none left.
  bool take_mine(ncclComm_t comm, Reduction* op) noexcept;
  bool take(ncclComm_t comm, Reduction* op) noexcept;
  // The communicator of the oldest of all; nullptr: there is none.
  ncclComm_t first() const noexcept;
  // How many went.
  std::size_t forget(ncclComm_t comm) noexcept;
  void clear() noexcept;

 private:
  static constexpr std::size_t kUsual = 64;
  struct Call {
    Reduction op;
    std::thread::id issuer;
  };
  template <class Wanted>
  bool take_first(Reduction* op, Wanted wanted) noexcept;
  void counted() noexcept { size_.store(list_.size(), std::memory_order_release); }

  mutable std::mutex mutex_;
  std::vector<Call> list_;
  std::atomic<std::size_t> size_{0};
};

}  // namespace stepgate::gate

// RetiringLock: a gate's lock, whose next holder first forgets the communicators that were ended while
// somebody else held it.
//
// A holder may be in a launch that waits for the device, and the device for a collective that only the job's
// abort ends. So the end of a communicator never waits for this lock: it leaves a word, and whoever takes the
// lock next acts on it before anything else, hence before the pointer can mean another communicator.
//
// Threads: any. Lock: is one; its own small one for the words is held across nothing. Ownership: `forget`,
// which is called with the lock held, must outlive it and may not throw.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "plugin/core/core_entry.h"

namespace stepgate::gate {

class RetiringLock {
 public:
  explicit RetiringLock(std::function<void(ncclComm_t)> forget) : forget_(std::move(forget)) {
    words_.reserve(kUsual);
    heard_.reserve(kUsual);
  }

  void lock() {
    mutex_.lock();
    catch_up();
  }
  bool try_lock() {
    if (!mutex_.try_lock()) return false;
    catch_up();
    return true;
  }
  void unlock() { mutex_.unlock(); }

  // comm ends. By the time that anybody takes the lock it has been forgotten.
  void retire(ncclComm_t comm) noexcept {
    if (!left_word(comm)) {
      const std::lock_guard waiting(*this);
      forget_(comm);
      return;
    }
    if (try_lock()) unlock();
  }

 private:
  static constexpr std::size_t kUsual = 16;

  // False: there is no memory for it.
  bool left_word(ncclComm_t comm) noexcept {
    try {
      const std::lock_guard words(words_mutex_);
      words_.push_back(comm);
      any_ = true;
      return true;
    } catch (...) {
      return false;
    }
  }

  void catch_up() {
    if (!any_) return;
    {
      const std::lock_guard words(words_mutex_);
      heard_.swap(words_);
      any_ = false;
    }
    for (const ncclComm_t comm : heard_) forget_(comm);
    heard_.clear();
  }

  const std::function<void(ncclComm_t)> forget_;
  std::mutex mutex_;
  std::vector<ncclComm_t> heard_;  // guarded by mutex_
  std::mutex words_mutex_;
  std::vector<ncclComm_t> words_;
  std::atomic<bool> any_{false};
};

}  // namespace stepgate::gate

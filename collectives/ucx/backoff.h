// How a wait spends time between slices of work: spin a little (only where every rank has a core), then
// yield, then let the caller sleep on descriptors. Spinning ranks that outnumber the cores starve the
// one that all wait for. One thread, no lock.
#pragma once

#include <sched.h>

#include <algorithm>

#include "collectives/ucx/deadline.h"

namespace stepgate::transport {

class Backoff {
 public:
  explicit Backoff(bool may_spin) : may_spin_(may_spin) {}

  void reset() {
    idle_ = false;
    polls_ = 0;
  }
  // The first polls take no time, and are none of the moments for looking at clocks.
  bool fresh() const { return may_spin_ && polls_ < kPolls; }

  // False when it is time to sleep.
  bool pause() {
    if (fresh()) {
      ++polls_;
      return true;
    }
    const Time now = Clock::now();
    if (!idle_) since_ = now;
    idle_ = true;
    if (may_spin_ && now - since_ < kSpin) return true;
    if (now - since_ > kYield) return false;
    sched_yield();
    return true;
  }

 private:
  static constexpr int kPolls = 32;
  static constexpr auto kSpin = std::chrono::microseconds(10);
  static constexpr auto kYield = std::chrono::milliseconds(1);

  const bool may_spin_;
  bool idle_ = false;
  int polls_ = 0;
  Time since_{};
};

inline int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace stepgate::transport

// Every call that reaches the stand-in: counted, listed, failed on request.
//
// Threads: any. Lock: its own, never held across a call's work.
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collectives/device/cuda/driver_abi.h"
#include "tests/standin_cuda/driver/control.h"

namespace stepgate::standin {

using device::cuda::Result;

class Calls {
 public:
  // The fault that was ordered for this call, or success. *slot is where its outcome is noted.
  Result enter(const char* name, std::size_t* slot);
  void leave(std::size_t slot, Result result, bool waited);

  void fail(const char* name, std::uint64_t index, Result result, std::uint64_t count);
  void heal();
  std::uint64_t faults_hit() const;
  std::size_t read(CallRecord* out, std::size_t capacity) const;
  void forget();

 private:
  struct Fault {
    std::string name;  // empty: any
    std::uint64_t skip = 0;
    Result result = Result::kSuccess;
    std::uint64_t left = 0;
  };
  Result fault_locked(const char* name);

  mutable std::mutex mutex_;
  std::vector<CallRecord> list_;
  Fault fault_;
  std::uint64_t hit_ = 0;
};

Calls& calls();

// Set by a function that makes the host wait; read when the call ends.
void note_wait() noexcept;
bool take_wait() noexcept;

// Runs one API function. A failed one does nothing; a failed release does its work first.
template <class Body>
Result entry(const char* name, Body body, bool releases = false) noexcept {
  std::size_t slot = 0;
  const Result ordered = calls().enter(name, &slot);
  Result result = ordered;
  if (ordered == Result::kSuccess || releases) {
    const Result real = body();
    if (ordered == Result::kSuccess) result = real;
  }
  calls().leave(slot, result, take_wait());
  return result;
}

}  // namespace stepgate::standin

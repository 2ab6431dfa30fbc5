// What ncclCommRegister was told about one communicator. On host memory there is nothing to prepare: the
// buffers are counted, so that a program's mistakes show as they do with NCCL.
//
//   void* handle = registrations.add(buffer, bytes);
//   Outcome o = registrations.remove(handle);
//
// Threads: any; its own lock. Ownership: handles are numbers that nobody looks behind, never used twice,
// dead with the communicator; the buffers stay the caller's and are never touched. A buffer that is
// deregistered leaves nothing behind: jobs register and deregister for every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "collectives/hostnccl/outcome.h"

namespace stepgate::hostnccl {

class Registrations {
 public:
  // As in NCCL, a buffer within the pages of one that is there gets that one's handle, once more.
  void* add(const void* buffer, std::size_t bytes);
  // Success for NULL, ncclInvalidUsage for what is not, or no longer, registered.
  Outcome remove(const void* handle);
  std::size_t held() const;

 private:
  struct Slot {
    std::uintptr_t begin;
    std::uintptr_t end;
    int references;
  };

  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Slot> slots_;  // by handle
  std::uintptr_t last_ = 0;
};

}  // namespace stepgate::hostnccl

// What ncclMemAlloc gives: memory of the device whose context is current in the calling thread, where the
// process has loaded a driver; else the host's, by whole pages.
//
//   HostMemory memory;
//   Outcome o = memory.allocate(cuda, &pointer, bytes);    // `cuda` NULL: no driver
//   o = memory.free(cuda, pointer);
//
// Threads: any; its own lock, not held across a call of the driver. Ownership: the host's memory is in here
// until it is freed; a device's is the driver's.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_set>

#include "collectives/hostnccl/cuda_driver.h"
#include "collectives/hostnccl/outcome.h"

namespace stepgate::hostnccl {

class HostMemory {
 public:
  Outcome allocate(const Cuda* cuda, void** pointer, std::size_t bytes);
  // Success for NULL. ncclUnhandledCudaError, as the driver has it, for what was not allocated or is free.
  Outcome free(const Cuda* cuda, void* pointer);

 private:
  bool forget(void* pointer);

  std::mutex mutex_;
  std::unordered_set<void*> held_;
};

}  // namespace stepgate::hostnccl

#include "collectives/hostnccl/host_memory.h"

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>

namespace stepgate::hostnccl {
namespace {

constexpr std::size_t kPage = 4096;  // NCCL_WIN_REQUIRED_ALIGNMENT

bool has_device(const Cuda* cuda) {
  cuda::Context current = nullptr;
  return cuda != nullptr && cuda->complete().ok() && cuda->api.CtxGetCurrent(&current) == cuda::kSuccess &&
         current != nullptr;
}

}  // namespace

Outcome HostMemory::allocate(const Cuda* cuda, void** pointer, std::size_t bytes) {
  if (pointer == nullptr) return {ncclUnhandledCudaError, "ncclMemAlloc: ptr is NULL"};
  *pointer = nullptr;
  if (bytes == 0) return success();
  if (has_device(cuda)) {
    cuda::Address address = 0;
    const cuda::Result result = cuda->api.MemAlloc(&address, bytes);
    if (result == cuda::kSuccess) *pointer = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
    return cuda->told(result, "cuMemAlloc");
  }
  const bool fits = bytes <= static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) - kPage;
  void* memory = fits ? std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage) : nullptr;
  if (memory == nullptr) {
    return {ncclSystemError, "ncclMemAlloc: no memory for " + std::to_string(bytes) + " bytes"};
  }
  const std::lock_guard lock(mutex_);
  held_.insert(memory);
  *pointer = memory;
  return success();
}

bool HostMemory::forget(void* pointer) {
  const std::lock_guard lock(mutex_);
  return held_.erase(pointer) != 0;
}

Outcome HostMemory::free(const Cuda* cuda, void* pointer) {
  if (pointer == nullptr) return success();
  if (forget(pointer)) {
    std::free(pointer);
    return success();
  }
  if (has_device(cuda)) {
    return cuda->told(cuda->api.MemFree(reinterpret_cast<std::uintptr_t>(pointer)), "cuMemFree");
  }
  return {ncclUnhandledCudaError, "ncclMemFree: ptr was not allocated by ncclMemAlloc, or is free already"};
}

}  // namespace stepgate::hostnccl

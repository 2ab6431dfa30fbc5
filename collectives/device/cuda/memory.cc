#include "collectives/device/cuda/memory.h"

#include <cstring>
#include <new>

#include "collectives/device/cuda/error_text.h"

namespace stepgate::device::cuda {
namespace {

constexpr std::size_t kLeast = 256;

DevicePtr address(const void* memory) {
  return static_cast<DevicePtr>(reinterpret_cast<std::uintptr_t>(memory));
}

}  // namespace

std::unique_ptr<DeviceMemory> DeviceMemory::create(const PrimaryContext& context, std::string* error) {
  const Driver& driver = context.driver();
  std::unique_ptr<DeviceMemory> memory(new DeviceMemory(context));
  // Non-blocking: the job's NULL stream must not wait for our zeroing, nor we for it.
  const Result r = driver.call(driver.api().StreamCreate, &memory->stream_, kStreamNonBlocking);
  if (r == Result::kSuccess) return memory;
  memory->stream_ = nullptr;
  driver_failed(driver, "create", driver.api().StreamCreate.name, "", r);
  *error = last_text();
  return nullptr;
}

DeviceMemory::~DeviceMemory() {
  for (const auto& [start, block] : blocks_) free(reinterpret_cast<void*>(start), block.kind);
  if (stream_ != nullptr) context_.driver().call(context_.driver().api().StreamDestroy, stream_);
}

void* DeviceMemory::allocate(std::size_t bytes, Memory kind) noexcept {
  const ContextScope scope(context_, "allocate");
  if (!scope) return nullptr;
  const RelaxedCapture relaxed(context_.driver());
  const std::size_t wanted = bytes == 0 ? kLeast : bytes;
  void* memory = kind == Memory::kDevice ? allocate_device(wanted) : allocate_mapped(wanted);
  if (memory == nullptr) return nullptr;
  if (remember(memory, {wanted, kind})) return memory;
  free(memory, kind);
  fail(Code::kOutOfMemory, "allocate: no host memory to remember %zu bytes", wanted);
  return nullptr;
}

bool DeviceMemory::remember(void* memory, Block block) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    blocks_[reinterpret_cast<std::uintptr_t>(memory)] = block;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void* DeviceMemory::allocate_device(std::size_t bytes) noexcept {
  const Driver& driver = context_.driver();
  const DriverApi& api = driver.api();
  char detail[64];
  std::snprintf(detail, sizeof detail, "%zu bytes on device %d", bytes, context_.ordinal());
  DevicePtr memory = 0;
  Result r = driver.call(api.MemAlloc, &memory, bytes);
  if (r != Result::kSuccess) {
    driver_failed(driver, "allocate", api.MemAlloc.name, detail, r);
    return nullptr;
  }
  const char* function = api.MemsetD8Async.name;
  r = driver.call(api.MemsetD8Async, memory, static_cast<unsigned char>(0), bytes, stream_);
  if (r == Result::kSuccess) {
    function = api.StreamSynchronize.name;
    r = driver.call(api.StreamSynchronize, stream_);
  }
  auto* found = reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory));
  if (r == Result::kSuccess) return found;
  driver_failed(driver, "allocate", function, detail, r);
  driver.call(api.MemFree, memory);
  return nullptr;
}

// Kernels are handed the host's address of mapped memory, so the device's must be the same one.
void* DeviceMemory::allocate_mapped(std::size_t bytes) noexcept {
  const Driver& driver = context_.driver();
  const DriverApi& api = driver.api();
  char detail[64];
  std::snprintf(detail, sizeof detail, "%zu bytes", bytes);
  void* memory = nullptr;
  Result r = driver.call(api.MemHostAlloc, &memory, bytes, kHostAllocPortable | kHostAllocDeviceMap);
  if (r != Result::kSuccess) {
    driver_failed(driver, "allocate", api.MemHostAlloc.name, detail, r);
    return nullptr;
  }
  DevicePtr alias = 0;
  r = driver.call(api.MemHostGetDevicePointer, &alias, memory, 0u);
  if (r == Result::kSuccess && alias == address(memory)) return std::memset(memory, 0, bytes);
  if (r != Result::kSuccess) {
    driver_failed(driver, "allocate", api.MemHostGetDevicePointer.name, detail, r);
  } else {
    fail(Code::kUnsupported, "allocate: mapped memory has another address on device %d than on the host",
         context_.ordinal());
  }
  driver.call(api.MemFreeHost, memory);
  return nullptr;
}

void DeviceMemory::free(void* memory, Memory kind) noexcept {
  const Driver& driver = context_.driver();
  // A failure here is an earlier operation's, or the process is ending: the memory is gone either way.
  if (kind == Memory::kDevice) {
    driver.call(driver.api().MemFree, address(memory));
  } else {
    driver.call(driver.api().MemFreeHost, memory);
  }
}

std::size_t DeviceMemory::release(void* memory, Memory kind) noexcept {
  if (memory == nullptr) return 0;
  const ContextScope scope(context_, "release");
  if (!scope) return 0;  // it stays in the table, and goes with the device
  const RelaxedCapture relaxed(context_.driver());
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto it = blocks_.find(reinterpret_cast<std::uintptr_t>(memory));
    if (it == blocks_.end() || it->second.kind != kind) return 0;
    bytes = it->second.bytes;
    blocks_.erase(it);
  }
  free(memory, kind);
  return bytes;
}

}  // namespace stepgate::device::cuda

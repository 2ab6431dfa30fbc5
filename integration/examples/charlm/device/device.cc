#include "integration/examples/charlm/device/device.h"

#include <algorithm>
#include <cstdint>

#include "integration/examples/charlm/device/image.h"

namespace stepgate::charlm {
namespace {

CudaAddress address_of(const void* pointer) {
  return static_cast<CudaAddress>(reinterpret_cast<std::uintptr_t>(pointer));
}

}  // namespace

Device::Device(const std::string& driver_library, unsigned local_rank) : driver_(driver_library) {
  try {
    start(local_rank);
  } catch (...) {
    stop();
    throw;
  }
}

Device::~Device() {
  stop();
}

void Device::start(unsigned local_rank) {
  const auto count = static_cast<unsigned>(driver_.device_count());
  driver_.call(driver_.DeviceGet, &device_, static_cast<int>(local_rank % count));
  driver_.call(driver_.PrimaryContextRetain, &context_, device_);
  driver_.call(driver_.ContextPush, context_);
  current_ = true;
  load_module();
  driver_.call(driver_.StreamCreate, &stream_, kCudaNonBlockingStream);
}

void Device::load_module() {
  const CudaResult r =
      driver_.try_call(driver_.ModuleLoadData, &module_, static_cast<const void*>(charlm_device_image));
  if (r == 0) return;
  const char* why = has_device_code()
                        ? "the driver does not take charlm's kernels; it may be older than the CUDA toolkit "
                          "of this build (CUDA 13 needs driver 580)"
                        : "this charlm was built without nvcc and carries no kernels; build it where nvcc is";
  throw std::runtime_error("--device cuda: " + std::string(why) +
                           ": cuModuleLoadData: " + driver_.error_text(r));
}

// Whatever there is so far. Errors are of no use to anybody here.
void Device::stop() noexcept {
  for (const CudaAddress address : device_memory_) driver_.try_call(driver_.MemFree, address);
  for (void* memory : pinned_memory_) driver_.try_call(driver_.HostFree, memory);
  if (stream_ != nullptr) driver_.try_call(driver_.StreamDestroy, stream_);
  if (module_ != nullptr) driver_.try_call(driver_.ModuleUnload, module_);
  CUctx_st* popped = nullptr;
  if (current_) driver_.try_call(driver_.ContextPop, &popped);
  if (context_ != nullptr) driver_.try_call(driver_.PrimaryContextRelease, device_);
}

void* Device::device_bytes(std::size_t bytes) {
  CudaAddress address = 0;
  driver_.call(driver_.MemAlloc, &address, std::max<std::size_t>(bytes, 1));
  device_memory_.push_back(address);
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

void* Device::pinned_bytes(std::size_t bytes) {
  void* memory = nullptr;
  driver_.call(driver_.HostAlloc, &memory, std::max<std::size_t>(bytes, 1), 0u);
  pinned_memory_.push_back(memory);
  return memory;
}

void Device::upload(void* device, const void* host, std::size_t bytes) {
  if (bytes != 0) driver_.call(driver_.CopyToDevice, address_of(device), host, bytes, stream_);
}

void Device::download(void* host, const void* device, std::size_t bytes) {
  if (bytes != 0) driver_.call(driver_.CopyToHost, host, address_of(device), bytes, stream_);
}

CUfunc_st* Device::kernel(const char* name) {
  CUfunc_st* function = nullptr;
  driver_.call(driver_.ModuleGetFunction, &function, module_, name);
  return function;
}

void Device::launch_with(CUfunc_st* kernel, unsigned blocks, unsigned threads, void** arguments) {
  void** none = nullptr;
  driver_.call(driver_.LaunchKernel, kernel, blocks, 1u, 1u, threads, 1u, 1u, 0u, stream_, arguments, none);
}

void Device::synchronize() {
  driver_.call(driver_.StreamSynchronize, stream_);
}

}  // namespace stepgate::charlm

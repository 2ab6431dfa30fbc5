#include "collectives/device/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>

#include "collectives/device/cuda/checks.h"
#include "collectives/device/cuda/error_text.h"
#include "collectives/device/cuda/kernels/tuning.h"

namespace stepgate::device {

using cuda::ContextScope;
using cuda::Kernel;
using cuda::RelaxedCapture;

namespace {

namespace kernels = ::stepgate::cuda;

cuda::DevicePtr address(const void* memory) {
  return static_cast<cuda::DevicePtr>(reinterpret_cast<std::uintptr_t>(memory));
}

}  // namespace

std::unique_ptr<CudaDevice> CudaDevice::create(const CudaDeviceOptions& options, std::string* error) {
  std::unique_ptr<CudaDevice> device(new CudaDevice);
  return device->build(options, error) ? std::move(device) : nullptr;
}

bool CudaDevice::build(const CudaDeviceOptions& options, std::string* error) {
  if (options.driver == nullptr || options.image == nullptr) {
    *error = options.driver == nullptr ? "CudaDevice: no driver was opened" : cuda::kNoKernels;
    return false;
  }
  fill_limits();
  context_ = cuda::PrimaryContext::retain(options.driver, options.ordinal, error);
  if (context_ == nullptr) return false;
  const ContextScope scope(*context_, "create");
  const RelaxedCapture relaxed(context_->driver());
  if (scope) kernels_ = cuda::KernelSet::load(*context_, options.image, error);
  if (kernels_ != nullptr) memory_ = cuda::DeviceMemory::create(*context_, error);
  if (memory_ != nullptr) scratch_ = std::make_unique<cuda::ScratchTable>(*memory_);
  if (scratch_ != nullptr && scratch_->fill_pool()) return true;
  if (!scope || scratch_ != nullptr) *error = cuda::last_text();
  return false;
}

CudaDevice::~CudaDevice() {
  if (context_ == nullptr) return;
  const ContextScope scope(*context_, "destroy");
  const RelaxedCapture relaxed(context_->driver());
  scratch_.reset();
  memory_.reset();
  kernels_.reset();
}

void* CudaDevice::allocate(std::size_t bytes, Memory kind) noexcept {
  return memory_->allocate(bytes, kind);
}

void CudaDevice::release(void* memory, Memory kind) noexcept {
  const std::size_t bytes = memory_->release(memory, kind);
  if (bytes != 0) scratch_->forget(memory, bytes);
}

Code CudaDevice::copy_in(Stream s, void* device, const void* from, std::size_t bytes) noexcept {
  if (const Code code = cuda::check_copy("copy_in", device, from, bytes); code != Code::kOk) return code;
  if (bytes == 0) return Code::kOk;
  const ContextScope scope(*context_, "copy_in");
  if (!scope) return scope.code();
  if (bytes <= kSmallCopyBytes) {
    return poke(s, static_cast<unsigned char*>(device), static_cast<const unsigned char*>(from), bytes);
  }
  return call_driver("copy_in", context_->driver().api().MemcpyHtoDAsync, address(device), from, bytes,
                     static_cast<cuda::StreamHandle>(s));
}

// The bytes travel in the launches: no staging to keep, and a graph replays what it captured.
Code CudaDevice::poke(Stream s, unsigned char* to, const unsigned char* from, std::size_t bytes) noexcept {
  kernels::PokeArguments a{};
  for (std::size_t at = 0; at < bytes; at += kernels::kPokeBytes) {
    a.to = to + at;
    a.bytes = static_cast<std::uint32_t>(std::min<std::size_t>(kernels::kPokeBytes, bytes - at));
    std::memcpy(a.data, from + at, a.bytes);
    const Code code = kernels_->launch("copy_in", Kernel::stepgate_poke, {1, kernels::kStepThreads}, s, a);
    if (code != Code::kOk) return code;
  }
  return Code::kOk;
}

Code CudaDevice::copy_out(Stream s, void* to, const void* device, std::size_t bytes) noexcept {
  if (const Code code = cuda::check_copy("copy_out", to, device, bytes); code != Code::kOk) return code;
  if (bytes == 0) return Code::kOk;
  const ContextScope scope(*context_, "copy_out");
  if (!scope) return scope.code();
  return call_driver("copy_out", context_->driver().api().MemcpyDtoHAsync, to, address(device), bytes,
                     static_cast<cuda::StreamHandle>(s));
}

Code CudaDevice::synchronize(Stream s) noexcept {
  const ContextScope scope(*context_, "synchronize");
  if (!scope) return scope.code();
  // Waiting is among what a capture of another stream in global mode forbids.
  const cuda::RelaxedCapture relaxed(context_->driver());
  return call_driver("synchronize", context_->driver().api().StreamSynchronize,
                     static_cast<cuda::StreamHandle>(s));
}

const char* CudaDevice::last_error() const noexcept {
  return cuda::last_text();
}

}  // namespace stepgate::device

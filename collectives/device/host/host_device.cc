#include "collectives/device/host/host_device.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "collectives/device/host/absorbed.h"
#include "collectives/device/host/checks.h"
#include "collectives/device/host/fp_environment.h"
#include "collectives/device/host/kernels.h"
#include "collectives/device/host/scan_segments.h"

namespace stepgate::device {

using host::fail;

namespace {

constexpr std::size_t kAlignment = 256;

Code copy(const char* operation, void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes == 0) return Code::kOk;
  if (to == nullptr || from == nullptr) {
    return fail(Code::kInvalid, "%s: %zu bytes %s a null pointer", operation, bytes,
                to == nullptr ? "to" : "from");
  }
  std::memmove(to, from, bytes);
  return Code::kOk;
}

}  // namespace

HostDevice::HostDevice() noexcept : HostDevice(host::best_kernels()) {}

HostDevice::HostDevice(const host::Kernels& kernels) noexcept : kernels_(&kernels) {}

void* HostDevice::allocate(std::size_t bytes, Memory) noexcept {
  if (bytes > std::numeric_limits<std::size_t>::max() - kAlignment) {
    fail(Code::kOutOfMemory, "allocate: %zu bytes are more than an address space", bytes);
    return nullptr;
  }
  const std::size_t rounded = bytes == 0 ? kAlignment : (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) {
    fail(Code::kOutOfMemory, "allocate: no memory for %zu bytes", bytes);
    return nullptr;
  }
  return std::memset(memory, 0, rounded);
}

void HostDevice::release(void* memory, Memory) noexcept {
  std::free(memory);
}

Code HostDevice::copy_in(Stream, void* device, const void* from, std::size_t bytes) noexcept {
  return copy("copy_in", device, from, bytes);
}

Code HostDevice::copy_out(Stream, void* to, const void* device, std::size_t bytes) noexcept {
  return copy("copy_out", to, device, bytes);
}

Code HostDevice::scan(Stream, const Scan& job) noexcept {
  if (const Code code = host::check_scan(job); code != Code::kOk) return code;
  if (job.unless_stamped && *job.stamp == *job.epoch) return Code::kOk;
  const host::DefaultFpEnvironment environment;
  host::scan_segments(*kernels_, job);
  if (job.stamp != nullptr) *job.stamp = *job.epoch;
  return Code::kOk;
}

Code HostDevice::apply(Stream, const Apply& job) noexcept {
  if (const Code code = host::check_apply(job); code != Code::kOk) return code;
  if (job.outputs->found_inf != 0.0f || job.count == 0) return Code::kOk;
  const auto index = static_cast<std::uint32_t>(job.stored);
  auto* data = static_cast<unsigned char*>(job.data);
  const host::DefaultFpEnvironment environment;
  if (job.out == nullptr) {
    kernels_->multiply[index](data, data, job.count, job.outputs->multiplier);
  } else {
    kernels_->multiply_to_fp32[index](data, static_cast<unsigned char*>(job.out), job.count,
                                      job.outputs->multiplier);
  }
  return Code::kOk;
}

Code HostDevice::observe_update(Stream, const ObserveUpdate& job) noexcept {
  if (const Code code = host::check_update(job); code != Code::kOk) return code;
  *job.total = host::count_absorbed(job);
  return Code::kOk;
}

Code HostDevice::synchronize(Stream) noexcept {
  return Code::kOk;
}

const char* HostDevice::last_error() const noexcept {
  return host::last_text();
}

}  // namespace stepgate::device

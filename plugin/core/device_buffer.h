// DeviceBuffer<T>: an owned array in a Device's memory. Move-only; freed with its owner. Control path
// only. The pointer may not be dereferenced by the host unless the memory is kMapped.
#pragma once

#include <cstddef>
#include <utility>

#include "collectives/device/device.h"

namespace stepgate::gate {

template <class T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& o) noexcept { swap(o); }
  DeviceBuffer& operator=(DeviceBuffer&& o) noexcept {
    DeviceBuffer gone(std::move(o));
    swap(gone);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_ != nullptr) device_->release(data_, kind_);
  }

  // Zeroed. False when the device has no memory left; the buffer is then empty.
  bool allocate(device::Device& device, std::size_t count, device::Memory kind) {
    DeviceBuffer fresh;
    fresh.device_ = &device;
    fresh.kind_ = kind;
    fresh.data_ = static_cast<T*>(device.allocate(count * sizeof(T), kind));
    if (fresh.data_ == nullptr) return false;
    fresh.count_ = count;
    swap(fresh);
    return true;
  }

  T* get() const { return data_; }
  std::size_t count() const { return count_; }

 private:
  void swap(DeviceBuffer& o) noexcept {
    std::swap(device_, o.device_);
    std::swap(data_, o.data_);
    std::swap(count_, o.count_);
    std::swap(kind_, o.kind_);
  }
  device::Device* device_ = nullptr;
  T* data_ = nullptr;
  std::size_t count_ = 0;
  device::Memory kind_ = device::Memory::kDevice;
};

}  // namespace stepgate::gate

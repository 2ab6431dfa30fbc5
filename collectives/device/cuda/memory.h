// DeviceMemory: allocates, zeroes and frees on a device, and knows what is its own.
//
// Threads: any, on the control path. Lock: its own, around the table only. Order: what allocate()
// returns is zero for every stream. Waits for its own stream and nothing else; freeing waits for
// the device, as CUDA does. Ownership: the PrimaryContext outlives it. What is left at its end is freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "collectives/device/cuda/context.h"
#include "collectives/device/device.h"

namespace stepgate::device::cuda {

class DeviceMemory {
 public:
  // nullptr with *error.
  static std::unique_ptr<DeviceMemory> create(const PrimaryContext& context, std::string* error);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* allocate(std::size_t bytes, Memory kind) noexcept;
  // Bytes of the block that is gone; 0 for what is no block of this kind.
  std::size_t release(void* memory, Memory kind) noexcept;

 private:
  struct Block {
    std::size_t bytes;
    Memory kind;
  };
  explicit DeviceMemory(const PrimaryContext& context) : context_(context) {}
  void* allocate_device(std::size_t bytes) noexcept;
  void* allocate_mapped(std::size_t bytes) noexcept;
  void free(void* memory, Memory kind) noexcept;
  bool remember(void* memory, Block block) noexcept;

  const PrimaryContext& context_;
  StreamHandle stream_ = nullptr;
  std::mutex mutex_;
  std::map<std::uintptr_t, Block> blocks_;
};

}  // namespace stepgate::device::cuda

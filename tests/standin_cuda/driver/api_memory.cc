// Memory, copies, what a pointer is.
#include <cstring>

#include "tests/standin_cuda/driver/api.h"
#include "tests/standin_cuda/driver/world.h"

namespace stepgate::standin::api {
namespace {

void* pointer(DevicePtr address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

DevicePtr address(const void* memory) {
  return static_cast<DevicePtr>(reinterpret_cast<std::uintptr_t>(memory));
}

bool known(const void* memory) {
  Block block;
  std::uintptr_t start = 0;
  return world().memory().find(memory, &block, &start);
}

Result push_copy(StreamHandle handle, void* to, const void* from, std::size_t bytes) {
  return world().push(world().stream(handle), [=] {
    const Access access(world().memory());
    std::memcpy(to, from, bytes);
  });
}

// Memory that the driver does not know is not pinned: the copy goes through a buffer of the driver's,
// and out of the device the host waits for it.
Result copy_to_host(StreamHandle handle, void* to, const void* from, std::size_t bytes) {
  const Result pushed = push_copy(handle, to, from, bytes);
  if (pushed != Result::kSuccess || known(to)) return pushed;
  return world().wait_for(world().stream(handle));
}

Result copy_from_host(StreamHandle handle, void* to, const void* from, std::size_t bytes) {
  if (known(from)) return push_copy(handle, to, from, bytes);
  // A graph would read the host's memory at every replay: not here.
  CaptureStatus status{};
  if (world().capturing(world().stream(handle), &status) && status != CaptureStatus::kNone) {
    return world().wait_for(world().stream(handle));
  }
  auto staged = std::make_shared<std::vector<unsigned char>>(bytes);
  std::memcpy(staged->data(), from, bytes);
  return world().push(world().stream(handle), [=] {
    const Access access(world().memory());
    std::memcpy(to, staged->data(), bytes);
  });
}

Result allocate(Kind kind, void** memory, std::size_t bytes) {
  if (World::current() == nullptr) return Result::kInvalidContext;
  if (bytes == 0) return Result::kInvalidValue;
  if (const Result r = world().unsafe_now(); r != Result::kSuccess) return r;
  *memory = world().memory().allocate(kind, World::current()->device, bytes);
  return *memory != nullptr ? Result::kSuccess : Result::kOutOfMemory;
}

// Freeing waits for the device, as CUDA does.
Result free_memory(Kind kind, void* memory) {
  if (memory == nullptr) return Result::kSuccess;
  Block block;
  std::uintptr_t start = 0;
  if (World::current() == nullptr) return world().misuse(Result::kInvalidContext);
  if (!world().memory().find(memory, &block, &start)) return world().misuse(Result::kInvalidValue);
  world().unsafe_now();  // costs the captures, but the memory goes
  note_wait();
  world().drain(block.device);
  return world().memory().release(kind, memory) ? Result::kSuccess : world().misuse(Result::kInvalidValue);
}

Result attribute_of(void* value, PointerAttribute attribute, const Block& block, std::uintptr_t at) {
  const bool host = block.kind == Kind::kPinned || block.kind == Kind::kRegistered;
  const bool managed = block.kind == Kind::kManaged;
  const auto put = [value](auto x) {
    std::memcpy(value, &x, sizeof x);
    return Result::kSuccess;
  };
  switch (attribute) {
    case PointerAttribute::kContext: return put(world().context(block.device));
    case PointerAttribute::kMemoryType: return put(host ? MemoryType::kHost : MemoryType::kDevice);
    case PointerAttribute::kDevicePointer: return put(DevicePtr{at});
    case PointerAttribute::kHostPointer: return host || managed ? put(at) : Result::kInvalidValue;
    case PointerAttribute::kIsManaged: return put(static_cast<unsigned>(managed));
    case PointerAttribute::kDeviceOrdinal: return put(block.device);
  }
  return Result::kInvalidValue;
}

}  // namespace

Result MemAlloc(DevicePtr* memory, std::size_t bytes) {
  return entry("cuMemAlloc_v2", [&] {
    void* found = nullptr;
    const Result r = allocate(Kind::kDevice, &found, bytes);
    if (r == Result::kSuccess) *memory = address(found);
    return r;
  });
}

Result MemFree(DevicePtr memory) {
  return entry(
      "cuMemFree_v2",
      [&] {
        Block block;
        std::uintptr_t start = 0;
        const bool managed =
            world().memory().find(pointer(memory), &block, &start) && block.kind == Kind::kManaged;
        return free_memory(managed ? Kind::kManaged : Kind::kDevice, pointer(memory));
      },
      true);
}

Result MemAllocManaged(DevicePtr* memory, std::size_t bytes, unsigned flags) {
  return entry("cuMemAllocManaged", [&] {
    if (flags != kMemAttachGlobal) return Result::kInvalidValue;
    void* found = nullptr;
    const Result r = allocate(Kind::kManaged, &found, bytes);
    if (r == Result::kSuccess) *memory = address(found);
    return r;
  });
}

Result MemHostRegister(void* memory, std::size_t bytes, unsigned) {
  return entry("cuMemHostRegister_v2", [&] {
    if (World::current() == nullptr) return Result::kInvalidContext;
    if (memory == nullptr || bytes == 0) return Result::kInvalidValue;
    if (const Result r = world().unsafe_now(); r != Result::kSuccess) return r;
    const bool taken = world().memory().adopt(World::current()->device, memory, bytes);
    return taken ? Result::kSuccess : world().misuse(Result::kInvalidValue);
  });
}

Result MemHostUnregister(void* memory) {
  return entry(
      "cuMemHostUnregister", [&] { return free_memory(Kind::kRegistered, memory); }, true);
}

Result MemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  return entry("cuMemHostAlloc", [&] {
    if ((flags & ~7u) != 0) return Result::kInvalidValue;
    return allocate(Kind::kPinned, memory, bytes);
  });
}

Result MemFreeHost(void* memory) {
  return entry(
      "cuMemFreeHost", [&] { return free_memory(Kind::kPinned, memory); }, true);
}

Result MemHostGetDevicePointer(DevicePtr* alias, void* memory, unsigned flags) {
  return entry("cuMemHostGetDevicePointer_v2", [&] {
    Block block;
    std::uintptr_t start = 0;
    if (flags != 0 || !world().memory().find(memory, &block, &start) || block.kind == Kind::kDevice) {
      return world().misuse(Result::kInvalidValue);
    }
    *alias = address(memory);
    return Result::kSuccess;
  });
}

Result MemsetD8Async(DevicePtr to, unsigned char value, std::size_t bytes, StreamHandle stream) {
  return entry("cuMemsetD8Async", [&] {
    return world().push(world().stream(stream), [=] {
      const Access access(world().memory());
      std::memset(pointer(to), value, bytes);
    });
  });
}

Result MemcpyHtoDAsync(DevicePtr to, const void* from, std::size_t bytes, StreamHandle stream) {
  return entry("cuMemcpyHtoDAsync_v2", [&] { return copy_from_host(stream, pointer(to), from, bytes); });
}

Result MemcpyDtoHAsync(void* to, DevicePtr from, std::size_t bytes, StreamHandle stream) {
  return entry("cuMemcpyDtoHAsync_v2", [&] { return copy_to_host(stream, to, pointer(from), bytes); });
}

Result MemcpyDtoDAsync(DevicePtr to, DevicePtr from, std::size_t bytes, StreamHandle stream) {
  return entry("cuMemcpyDtoDAsync_v2", [&] {
    if (!known(pointer(to)) || !known(pointer(from))) return world().misuse(Result::kInvalidValue);
    return push_copy(stream, pointer(to), pointer(from), bytes);
  });
}

Result MemcpyAsync(DevicePtr to, DevicePtr from, std::size_t bytes, StreamHandle stream) {
  return entry("cuMemcpyAsync", [&] {
    if (!known(pointer(from))) return copy_from_host(stream, pointer(to), pointer(from), bytes);
    return copy_to_host(stream, pointer(to), pointer(from), bytes);
  });
}

Result PointerGetAttribute(void* value, PointerAttribute attribute, DevicePtr asked) {
  return entry("cuPointerGetAttribute", [&] {
    Block block;
    std::uintptr_t start = 0;
    if (!world().memory().find(pointer(asked), &block, &start)) return Result::kInvalidValue;
    return attribute_of(value, attribute, block, static_cast<std::uintptr_t>(asked));
  });
}

}  // namespace stepgate::standin::api

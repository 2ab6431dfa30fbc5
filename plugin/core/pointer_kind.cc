#include "plugin/core/pointer_kind.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdint>

namespace stepgate::gate {
namespace {

// cuPointerGetAttribute of the driver API; its memory type 2 is CU_MEMORYTYPE_DEVICE.
using GetAttribute = int (*)(void* data, int attribute, std::uint64_t pointer);
constexpr int kMemoryType = 2;
constexpr int kIsManaged = 8;
constexpr unsigned kDeviceMemory = 2;
constexpr int kUnknownPointer = 1;  // CUDA_ERROR_INVALID_VALUE
constexpr int kNotInitialized = 3;
constexpr int kNoContext = 201;  // nobody has used a device in this process yet

// How many objects have ever been loaded into this process: while it stands, no driver has come.
unsigned long long objects_loaded() noexcept {
  unsigned long long added = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        *static_cast<unsigned long long*>(to) = info->dlpi_adds;
        return 1;
      },
      &added);
  return added;
}

// Looked for again until a driver is there; once found it stays, for a job does not unload its driver. Hooks
// ask with every reduction, and the loader searches files for a name that it does not hold: only where
// something has been loaded since.
GetAttribute driver() noexcept {
  static std::atomic<GetAttribute> known{nullptr};
  static std::atomic<unsigned long long> looked_at{0};
  if (GetAttribute have = known.load(std::memory_order_relaxed)) return have;
  const unsigned long long loaded = objects_loaded();
  if (looked_at.load(std::memory_order_relaxed) == loaded) return nullptr;
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  GetAttribute found = nullptr;
  if (library != nullptr) {
    found = reinterpret_cast<GetAttribute>(dlsym(library, "cuPointerGetAttribute"));
    dlclose(library);  // the job holds it
    known.store(found, std::memory_order_relaxed);
  }
  looked_at.store(loaded, std::memory_order_relaxed);
  return found;
}

}  // namespace

PointerKind pointer_kind(const void* pointer) noexcept {
  const GetAttribute ask = driver();
  if (ask == nullptr) return PointerKind::kOrdinary;
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  unsigned type = 0;
  const int asked = ask(&type, kMemoryType, address);
  if (asked == kUnknownPointer || asked == kNoContext || asked == kNotInitialized)
    return PointerKind::kOrdinary;
  if (asked != 0) return PointerKind::kDevice;
  if (type != kDeviceMemory) return PointerKind::kShared;
  unsigned managed = 0;
  const bool shared = ask(&managed, kIsManaged, address) == 0 && managed != 0;
  return shared ? PointerKind::kShared : PointerKind::kDevice;
}

}  // namespace stepgate::gate

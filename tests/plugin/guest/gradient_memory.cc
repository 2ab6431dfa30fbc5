#include "tests/plugin/guest/gradient_memory.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/plugin/guest/job.h"

namespace stepgate::test {
namespace {

// A function of the driver, by its type and exported name.
template <class Function>
Function driver(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  need(library != nullptr, "libcuda.so.1");
  void* const found = dlsym(library, name);
  need(found != nullptr, name);
  return reinterpret_cast<Function>(found);
}

void make_context_current() {
  void* context = nullptr;
  need(driver<int (*)(unsigned)>("cuInit")(0) == 0, "cuInit");
  need(driver<int (*)(void**, int)>("cuDevicePrimaryCtxRetain")(&context, 0) == 0,
       "cuDevicePrimaryCtxRetain");
  need(driver<int (*)(void*)>("cuCtxPushCurrent_v2")(context) == 0, "cuCtxPushCurrent");
}

}  // namespace

bool device_wanted() {
  const char* device = std::getenv("GUEST_DEVICE");
  return device != nullptr && std::string(device) == "cuda";
}

GradientMemory::GradientMemory(std::size_t count, bool on_device)
    : values_(count, 1.0f), data_(values_.data()), on_device_(on_device) {
  if (!on_device) return;
  make_context_current();
  void* memory = nullptr;
  need(driver<int (*)(void**, std::size_t)>("cuMemAlloc_v2")(&memory, count * sizeof(float)) == 0,
       "cuMemAlloc");
  data_ = static_cast<float*>(memory);
  fill(values_);
}

void GradientMemory::fill(const std::vector<float>& values) {
  if (!on_device_) {
    std::copy_n(values.begin(), values_.size(), data_);
    return;
  }
  const auto copy = driver<int (*)(void*, const void*, std::size_t, void*)>("cuMemcpyHtoDAsync_v2");
  need(copy(data_, values.data(), values_.size() * sizeof(float), nullptr) == 0, "cuMemcpyHtoDAsync");
  need(driver<int (*)(void*)>("cuStreamSynchronize")(nullptr) == 0, "cuStreamSynchronize");
}

}  // namespace stepgate::test

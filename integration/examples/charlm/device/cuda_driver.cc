#include "integration/examples/charlm/device/cuda_driver.h"

#include <dlfcn.h>

namespace stepgate::charlm {
namespace {

constexpr char kOtherwise[] = "; --device host needs none";

std::runtime_error unusable(const std::string& why) {
  return std::runtime_error("--device cuda: " + why + kOtherwise);
}

}  // namespace

CudaDriver::CudaDriver(const std::string& library) {
  void* opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* why = dlerror();
    throw unusable("no CUDA driver on this machine (" + std::string(why != nullptr ? why : library) + ")");
  }
  resolve(opened, library);
  start();
}

void CudaDriver::resolve(void* library, const std::string& name) {
  std::string missing;
  const auto find = [&](const char* exported) {
    void* found = dlsym(library, exported);
    if (found == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(exported);
    return found;
  };
#define CHARLM_CUDA_FIND(NAME, EXPORTED, PARAMETERS) \
  NAME.address = reinterpret_cast<decltype(NAME.address)>(find(EXPORTED));
  CHARLM_CUDA_FUNCTIONS(CHARLM_CUDA_FIND)
#undef CHARLM_CUDA_FIND
  if (!missing.empty()) throw unusable("the CUDA driver " + name + " lacks " + missing + "; update it");
}

void CudaDriver::start() {
  const CudaResult started = try_call(Init, 0u);
  if (started != 0 && started != kCudaNoDevice) {
    throw unusable("the CUDA driver does not start: cuInit: " + error_text(started));
  }
  if (started == 0) call(DeviceGetCount, &device_count_);
  if (device_count_ == 0) throw unusable("the CUDA driver sees no device (CUDA_VISIBLE_DEVICES?)");
}

std::string CudaDriver::error_text(CudaResult error) const {
  const char* text = nullptr;
  if (GetErrorName.address(error, &text) != 0 || text == nullptr) text = "unknown CUDA error";
  return std::string(text) + " (" + std::to_string(error) + ")";
}

void CudaDriver::fail(const char* function, CudaResult error) const {
  throw std::runtime_error(std::string(function) + ": " + error_text(error));
}

}  // namespace stepgate::charlm

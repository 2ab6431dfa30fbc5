#include "plugin/core/devices.h"

#include <dlfcn.h>

#include "collectives/device/cuda/kernels/fatbin.h"

namespace stepgate::gate {
namespace {

using device::cuda::ContextHandle;
using device::cuda::Result;

constexpr char kDriverLibrary[] = "libcuda.so.1";

// Whether somebody in this process has loaded a driver: ours to use then, and never ours to load.
bool driver_is_loaded() {
  void* library = dlopen(kDriverLibrary, RTLD_LAZY | RTLD_NOLOAD);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

}  // namespace

device::Device* Devices::current(DeviceChoice choice, std::string* error) {
  if (choice == DeviceChoice::kHost) return &host_;
  const std::lock_guard lock(mutex_);
  const bool automatic = choice == DeviceChoice::kAuto;
  if (automatic && driver_ == nullptr && !driver_is_loaded()) return &host_;
  if (!open_driver_locked(choice, error)) return automatic ? &host_ : nullptr;
  ContextHandle context = nullptr;
  int ordinal = -1;
  const auto& api = driver_->api();
  if (driver_->call(api.CtxGetCurrent, &context) != Result::kSuccess || context == nullptr ||
      driver_->call(api.CtxGetDevice, &ordinal) != Result::kSuccess) {
    if (automatic) return &host_;
    *error =
        "STEPGATE_DEVICE=cuda, but no CUDA context is current in this thread; create gates after the job has "
        "chosen its device (cudaSetDevice and a first use)";
    return nullptr;
  }
  device::Device* const found = cuda_locked(ordinal, context, error);
  if (found == nullptr && automatic) *error += "; STEPGATE_DEVICE=host makes gates work on host memory";
  return found;
}

device::Device* Devices::numbered(int ordinal, DeviceChoice choice, std::string* error) {
  device::Device* const here = current(choice, error);
  if (here == nullptr || here->immediate() || ordinal < 0) return here;
  const std::lock_guard lock(mutex_);
  return cuda_locked(ordinal, nullptr, error);
}

bool Devices::open_driver_locked(DeviceChoice choice, std::string* error) {
  if (driver_ == nullptr) driver_ = device::cuda::Driver::open({}, error);
  if (driver_ == nullptr && choice == DeviceChoice::kCuda) *error = "STEPGATE_DEVICE=cuda: " + *error;
  return driver_ != nullptr;
}

device::Device* Devices::cuda_locked(int ordinal, ContextHandle context, std::string* error) {
  std::unique_ptr<device::CudaDevice>& device = cuda_[ordinal];
  if (device == nullptr) device = device::CudaDevice::create({driver_, ordinal, stepgate_fatbin}, error);
  if (device == nullptr) return nullptr;
  if (context == nullptr || device->context() == context) return device.get();
  *error = "the CUDA context that is current here is not device " + std::to_string(ordinal) +
           "'s primary one, which is the one that this plugin and NCCL work in";
  return nullptr;
}

}  // namespace stepgate::gate

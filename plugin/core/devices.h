// Devices: where this process's gates can work: host memory, and one CudaDevice per CUDA device that a
// gate was created for.
//
// Thread: any. Lock: one of its own, held while kernels are loaded. Lifetime: as long as the process, for
// gates and captured graphs hold memory of the devices. The CUDA driver is used only where the job has
// loaded one, or where the configuration insists.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "collectives/device/cuda/cuda_device.h"
#include "collectives/device/device.h"
#include "collectives/device/host/host_device.h"
#include "plugin/core/configuration.h"

namespace stepgate::gate {

class Devices {
 public:
  // The device of the calling thread. kAuto: of its current CUDA context where it has one, else host
  // memory; kCuda: insists on the former. nullptr with *error. Host memory with *error: there is a driver,
  // and it is of no use.
  device::Device* current(DeviceChoice choice, std::string* error);
  // The CUDA device of that number, whichever is current, where the calling thread works on CUDA; on host
  // memory, or with -1, current().
  device::Device* numbered(int ordinal, DeviceChoice choice, std::string* error);

 private:
  // context: the current one, which must be the device's primary one; nullptr: none is asked for.
  device::Device* cuda_locked(int ordinal, device::cuda::ContextHandle context, std::string* error);
  bool open_driver_locked(DeviceChoice choice, std::string* error);

  std::mutex mutex_;
  device::HostDevice host_;
  std::shared_ptr<device::cuda::Driver> driver_;
  std::map<int, std::unique_ptr<device::CudaDevice>> cuda_;
};

}  // namespace stepgate::gate

// Whether scans of a device may read what a pointer points to.
//
// Thread: any. The host device knows of no driver and would end the job on device memory, so the driver of
// this process is asked for it; a CUDA device asks its own.
#pragma once

#include "collectives/device/device.h"
#include "plugin/core/pointer_kind.h"

namespace stepgate::gate {

inline bool reads(device::Device& device, const void* p) noexcept {
  return device.immediate() ? !is_device_only(p) : device.reaches(p);
}

// Whether what a call leaves in this memory is the device's to read behind it. What a driver knows is filled
// on a stream, also where the host can read it: there the host would come too early.
inline bool reads_behind_a_call(device::Device& device, const void* p) noexcept {
  return device.immediate() ? pointer_kind(p) == PointerKind::kOrdinary : device.reaches(p);
}

}  // namespace stepgate::gate

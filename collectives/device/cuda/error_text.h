// The text of the calling thread's last failure, and how one is written.
//
// Thread: any; the text is the thread's own. Order, lock, ownership: none.
#pragma once

#include "collectives/device/cuda/driver.h"
#include "collectives/device/device.h"

namespace stepgate::device::cuda {

__attribute__((format(printf, 2, 3))) Code fail(Code code, const char* format, ...) noexcept;

// "scan: cuLaunchKernel(stepgate_scan_fp16): CUDA_ERROR_LAUNCH_FAILED (719)". `detail` may be "".
Code driver_failed(const Driver& driver, const char* operation, const char* function, const char* detail,
                   Result result) noexcept;

const char* last_text() noexcept;  // never nullptr

}  // namespace stepgate::device::cuda

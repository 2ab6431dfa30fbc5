// A Scan over host memory: units folded into segments, segments into the range, in the fixed order.
//
// Thread: the caller's, which must have set the default floating-point environment. Allocates
// nothing, throws nothing. Ownership: everything in the job is the caller's.
#pragma once

#include "collectives/device/device.h"
#include "collectives/device/host/kernels.h"

namespace stepgate::device::host {

// The job has been checked: a host type, no null data with a count.
void scan_segments(const Kernels& kernels, const Scan& job) noexcept;

}  // namespace stepgate::device::host

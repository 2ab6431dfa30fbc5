// Updates that change nothing: the host's form of observe_update.
//
// Thread: any. Reads what the job names; writes nothing.
#pragma once

#include "collectives/device/device.h"

namespace stepgate::device::host {

// The job has been checked.
UpdateStats count_absorbed(const ObserveUpdate& job) noexcept;

}  // namespace stepgate::device::host

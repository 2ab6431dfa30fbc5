// PendingBallot: the memory of one activation vote.
//
// Shared with the call that carries it: at a deadline the call outlives the gate. Thread: `abandoned` any;
// the rest the call's until it has returned, then the gate's. Ownership: with the last of the two.
#pragma once

#include <atomic>
#include <string>

#include "collectives/device/device.h"
#include "plugin/core/device_buffer.h"

namespace stepgate::gate {

struct PendingBallot {
  DeviceBuffer<double> fields;
  DeviceBuffer<double> unwilling;  // constant: what a rank sends that cannot fill `fields`
  DeviceBuffer<double> nothing;    // zeros
  DeviceBuffer<double> sums;       // mapped
  bool summed = false;
  device::Code copied = device::Code::kOk;
  std::string error;
  // Nobody waits for it any more: nothing is issued for it from here on.
  std::atomic<bool> abandoned{false};
};

}  // namespace stepgate::gate

// Which kernels a build carries, and whether a device can run them.
//
// Thread: any. Order, lock: none. Ownership: values.
#pragma once

#include <string>
#include <string_view>

#include "integration/command/check/findings.h"

namespace stepgate::command {

// Reads the line that stands in front of the kernels (kernels/fatbin.S.in) out of the plugin's own file:
// what is told is what jobs will load. Not present where the file cannot be read or has none.
DeviceCode device_code_of(const std::string& library);

// The same of the line alone: "cuda=13.0 sm=75,80,90 ptx=90".
DeviceCode parse_device_code(std::string_view line);

// What a device of this compute capability runs: "sm_90", "PTX of compute_90" (compiled by the driver when
// a job starts), or "" for nothing. Machine code runs on its own major number from its own minor number on;
// PTX on everything newer, if the driver is as new as the compiler.
std::string fitting_code(const DeviceCode& code, int capability, int driver_version);

}  // namespace stepgate::command

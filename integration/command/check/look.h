// Looks at the machine: the plugin's files, the CUDA driver, NCCL.
//
// Thread: main. Order, lock: none. Ownership: values. Opens libcuda.so.1 and libnccl.so.2 in this process,
// which ends soon, and starts nothing on a device.
#pragma once

#include <string>

#include "integration/command/check/findings.h"

namespace stepgate::command {

// folder: where libstepgate.so and what it opens should be.
Findings look_at_machine(const std::string& folder);

CudaDriver look_at_driver();
NcclLibrary look_at_nccl();

}  // namespace stepgate::command

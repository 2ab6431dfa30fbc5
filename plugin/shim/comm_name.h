// What a job calls the communicator that it creates: commName of ncclConfig_t, which NCCL has since 2.27.
//
// Thread: that of the creation, after NCCL has taken the configuration. No state; names are the registry's.
#pragma once

#include "collectives/nccl_abi/nccl_abi.h"

namespace stepgate::shim {

// nullptr: none, or a configuration of an older NCCL.
const char* name_in(const ncclConfig_t* config) noexcept;
// Of a split or shrunk communicator: one without a configuration has its parent's, as in NCCL.
const char* name_of_child(ncclComm_t parent, const ncclConfig_t* config) noexcept;

}  // namespace stepgate::shim

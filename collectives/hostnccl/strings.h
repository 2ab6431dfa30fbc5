// ncclGetErrorString's sentences. Static storage, any thread.
#pragma once

#include "collectives/nccl_abi/nccl_abi.h"

namespace stepgate::hostnccl {

const char* describe(ncclResult_t result) noexcept;

}  // namespace stepgate::hostnccl

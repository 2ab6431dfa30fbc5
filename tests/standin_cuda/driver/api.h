// The stand-in's side of driver_abi.h: every function that the list there names, exported under
// CUDA's own name. A function that is missing here does not link.
//
// Threads: any, as CUDA's own.
#pragma once

#include "collectives/device/cuda/driver_abi.h"

#define STEPGATE_STANDIN_EXPORT __attribute__((visibility("default")))

namespace stepgate::standin::api {

using namespace stepgate::device::cuda;

#define STEPGATE_STANDIN_DECLARE(NAME, SUFFIX, PARAMETERS) \
  STEPGATE_STANDIN_EXPORT Result NAME PARAMETERS __asm__("cu" #NAME SUFFIX);
STEPGATE_CUDA_REQUIRED(STEPGATE_STANDIN_DECLARE)
STEPGATE_CUDA_OPTIONAL(STEPGATE_STANDIN_DECLARE)
#undef STEPGATE_STANDIN_DECLARE

}  // namespace stepgate::standin::api

// NCCL's data types as this project's element types.
//
// Thread: any; pure functions.
#pragma once

#include "collectives/core/element_type.h"
#include "collectives/nccl_abi/element_bytes.h"
#include "collectives/nccl_abi/nccl_abi.h"

namespace stepgate::gate {

// False for what is no floating type.
inline bool element_type_of(ncclDataType_t t, ElementType* out) {
  switch (t) {
    case ncclFloat32: *out = ElementType::kFp32; return true;
    case ncclFloat16: *out = ElementType::kFp16; return true;
    case ncclBfloat16: *out = ElementType::kBf16; return true;
    case ncclFloat64: *out = ElementType::kFp64; return true;
    case ncclFloat8e4m3: *out = ElementType::kFp8E4M3; return true;
    case ncclFloat8e5m2: *out = ElementType::kFp8E5M2; return true;
    default: return false;
  }
}

}  // namespace stepgate::gate

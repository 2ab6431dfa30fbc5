// NCCL's data types as this project's element types.
//
// Thread: any; pure functions.
#pragma once

#include <cstddef>

#include "collectives/core/element_type.h"
#include "collectives/nccl_abi/nccl_abi.h"

namespace stepgate::gate {

// Bytes of an element; 0 for a type that is none.
inline std::size_t bytes_of(ncclDataType_t t) {
  switch (t) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 0;
  }
}

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

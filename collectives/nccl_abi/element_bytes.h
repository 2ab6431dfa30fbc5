// Sizes of NCCL's element types.
//
// A pure function: no thread, order, lock or ownership of its own.
#pragma once

#include <cstddef>

#include "collectives/nccl_abi/nccl_abi.h"

namespace stepgate {

// Bytes of an element of an ncclDataType_t (as an int: callers hand on what a job gave them); 0 for what is
// no type of NCCL 2.28. Source: ncclDataType_t in nccl.h.
inline std::size_t element_bytes(int type) noexcept {
  switch (type) {
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

}  // namespace stepgate

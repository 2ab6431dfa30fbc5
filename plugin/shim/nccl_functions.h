// The functions of one NCCL copy that the shim may call: one pointer per hooked symbol and a few more
// that only ask. X(name without "nccl", return type, parameters).
//
// Thread: any; filled once by resolve.cc, immutable afterwards. A null pointer: that copy lacks it.
#pragma once

#include "plugin/core/core_entry.h"

namespace stepgate::shim {

#define STEPGATE_NCCL_FUNCTIONS(X)                                                                           \
  X(GetVersion, ncclResult_t, (int*))                                                                        \
  X(CommCount, ncclResult_t, (const ncclComm_t, int*))                                                       \
  X(CommUserRank, ncclResult_t, (const ncclComm_t, int*))                                                    \
  X(GetErrorString, const char*, (ncclResult_t))                                                             \
  X(GetLastError, const char*, (ncclComm_t))                                                                 \
  X(CommInitRank, ncclResult_t, (ncclComm_t*, int, ncclUniqueId, int))                                       \
  X(CommInitRankConfig, ncclResult_t, (ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*))                  \
  X(CommInitRankScalable, ncclResult_t, (ncclComm_t*, int, int, int, ncclUniqueId*, ncclConfig_t*))          \
  X(CommInitAll, ncclResult_t, (ncclComm_t*, int, const int*))                                               \
  X(CommSplit, ncclResult_t, (ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*))                             \
  X(CommShrink, ncclResult_t, (ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int))                      \
  X(CommFinalize, ncclResult_t, (ncclComm_t))                                                                \
  X(CommDestroy, ncclResult_t, (ncclComm_t))                                                                 \
  X(CommAbort, ncclResult_t, (ncclComm_t))                                                                   \
  X(CommRevoke, ncclResult_t, (ncclComm_t, int))                                                             \
  X(CommGetAsyncError, ncclResult_t, (ncclComm_t, ncclResult_t*))                                            \
  X(RedOpCreatePreMulSum, ncclResult_t,                                                                      \
    (ncclRedOp_t*, void*, ncclDataType_t, ncclScalarResidence_t, ncclComm_t))                                \
  X(RedOpDestroy, ncclResult_t, (ncclRedOp_t, ncclComm_t))                                                   \
  X(AllReduce, ncclResult_t,                                                                                 \
    (const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))                \
  X(ReduceScatter, ncclResult_t,                                                                             \
    (const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))                \
  X(Reduce, ncclResult_t,                                                                                    \
    (const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t))           \
  X(AllGather, ncclResult_t, (const void*, void*, std::size_t, ncclDataType_t, ncclComm_t, cudaStream_t))    \
  X(AlltoAll, ncclResult_t, (const void*, void*, std::size_t, ncclDataType_t, ncclComm_t, cudaStream_t))     \
  X(Broadcast, ncclResult_t,                                                                                 \
    (const void*, void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))                        \
  X(Bcast, ncclResult_t, (void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))                \
  X(Gather, ncclResult_t, (const void*, void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))  \
  X(Scatter, ncclResult_t, (const void*, void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)) \
  X(Send, ncclResult_t, (const void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))           \
  X(Recv, ncclResult_t, (void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))                 \
  X(GroupStart, ncclResult_t, ())                                                                            \
  X(GroupEnd, ncclResult_t, ())                                                                              \
  X(GroupSimulateEnd, ncclResult_t, (ncclSimInfo_t*))

struct NcclFunctions {
#define STEPGATE_POINTER(name, result, parameters) result(*name) parameters;
  STEPGATE_NCCL_FUNCTIONS(STEPGATE_POINTER)
#undef STEPGATE_POINTER
};

// One NCCL copy in this process.
struct NcclCopy {
  NcclFunctions functions{};
  NcclTable table{};             // the part that the core sees
  const void* object = nullptr;  // ld.so's entry of the object that it lives in
};

}  // namespace stepgate::shim

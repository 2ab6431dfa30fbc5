// The names that nccl_abi.h declares, and how two headers' declarations are compared: each of two
// translation units sees one header and lists the mangled type of every function.
//
// Thread: any. Order, lock: none. Ownership: values.
#pragma once

#include <string>
#include <vector>

struct Declaration {
  std::string name;
  std::string type;  // mangled, so equal for equal types
};

// Nothing, and version 0, for NVIDIA where this machine has no nccl.h.
std::vector<Declaration> our_declarations();
std::vector<Declaration> nvidia_declarations();
int nvidia_version();

// By the release that first had them. Laid out by hand: the formatter knows no such lists.
// clang-format off
#define NCCL_FUNCTIONS_21800(X)                                                               \
  X(ncclGetVersion) X(ncclGetUniqueId) X(ncclCommInitRank) X(ncclCommInitRankConfig)          \
  X(ncclCommInitAll) X(ncclCommFinalize) X(ncclCommDestroy) X(ncclCommAbort) X(ncclCommSplit) \
  X(ncclGetErrorString) X(ncclGetLastError) X(ncclCommGetAsyncError) X(ncclCommCount)         \
  X(ncclCommCuDevice) X(ncclCommUserRank) X(ncclRedOpCreatePreMulSum) X(ncclRedOpDestroy)     \
  X(ncclReduce) X(ncclBcast) X(ncclBroadcast) X(ncclAllReduce) X(ncclReduceScatter)           \
  X(ncclAllGather) X(ncclSend) X(ncclRecv) X(ncclGroupStart) X(ncclGroupEnd)
#define NCCL_FUNCTIONS_21900(X) \
  X(ncclMemAlloc) X(ncclMemFree) X(ncclCommRegister) X(ncclCommDeregister)
#define NCCL_FUNCTIONS_22200(X) X(ncclGroupSimulateEnd)
#define NCCL_FUNCTIONS_22300(X) X(ncclCommInitRankScalable)
#define NCCL_FUNCTIONS_22700(X) \
  X(ncclCommShrink) X(ncclCommWindowRegister) X(ncclCommWindowDeregister)
#define NCCL_FUNCTIONS_22800(X) X(ncclAlltoAll) X(ncclGather) X(ncclScatter)
#define NCCL_FUNCTIONS_22809(X) X(ncclCommRevoke)
// clang-format on

// A libnccl.so.2 to link against alone: every symbol that the shim hooks, none that works. Programs that
// must start with any NCCL release are linked to it, and get the release under test at run time.
#define STEPGATE_NCCL_ABI_TYPES_ONLY
#include "plugin/shim/nccl_functions.h"

#define STEPGATE_STUB(name, result, parameters)                        \
  extern "C" __attribute__((visibility("default"))) int nccl##name() { \
    return ncclInternalError;                                          \
  }
STEPGATE_NCCL_FUNCTIONS(STEPGATE_STUB)
STEPGATE_STUB(GetUniqueId, , )

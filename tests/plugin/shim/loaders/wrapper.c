/* A library that wraps NCCL, whose wrapper passes the call on as its last act: at -O2 that is a jump, and
 * what the hook finds on the stack is the wrapper's caller. */
#include "collectives/nccl_abi/nccl_abi.h"

static ncclComm_t made;

__attribute__((visibility("default"))) ncclResult_t wrapped_split(ncclComm_t comm) {
  return ncclCommSplit(comm, 0, 0, &made, NULL);
}

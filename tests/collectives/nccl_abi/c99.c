/* nccl_abi.h in plain C99: the declarations are usable as C sees them. */
#include "collectives/nccl_abi/nccl_abi.h"

typedef ncclResult_t (*all_reduce_fn)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                                      cudaStream_t);

size_t nccl_abi_c99_unique_id_size(void);
int nccl_abi_c99_same_type(all_reduce_fn f);

size_t nccl_abi_c99_unique_id_size(void) {
  ncclUniqueId id;
  return sizeof id.internal;
}

int nccl_abi_c99_same_type(all_reduce_fn f) {
  /* The assignment is the check: an incompatible declaration does not compile. Never called. */
  all_reduce_fn declared = sizeof(ncclAllReduce(0, 0, 0, ncclFloat32, ncclSum, 0, 0)) ? f : 0;
  return declared == f && ncclNumResults == 8;
}

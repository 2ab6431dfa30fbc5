/* A library that uses NCCL, as an extension module does: its host opens it RTLD_LOCAL, so nothing of it
 * or of NCCL is in the global scope. use_nccl(gate's add_group or NULL) returns 0 when all went well. */
#include <string.h>

#include "collectives/nccl_abi/nccl_abi.h"

__attribute__((visibility("default"))) int use_nccl(int (*with_communicator)(void*)) {
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  double value = 2, result = 0;
  int failed;
  memset(&id, 0, sizeof id);
  if (ncclGetUniqueId(&id) != ncclSuccess) return 1;
  if (ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess) return 2;
  if (ncclAllReduce(&value, &result, 1, ncclFloat64, ncclSum, comm, NULL) != ncclSuccess) return 3;
  if (result != 2) return 4;
  failed = with_communicator(comm);
  if (ncclCommDestroy(comm) != ncclSuccess) return 5;
  return failed;
}

/* An NCCL of one rank that counts the reductions it was asked for, so that a test sees which copy a call
 * reached. As NVIDIA's it offers weak ncclX with strong pncclX, and asks ncclCommGetAsyncError through the
 * dynamic linker in each call on a communicator. It prints its count when its communicator goes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/nccl_abi/nccl_abi.h"

#define EXPORTED __attribute__((visibility("default")))
/* The strong name is the function, the weak one an alias that others may take the place of. */
#define API(name, parameters)                                                              \
  EXPORTED ncclResult_t pnccl##name parameters;                                            \
  EXPORTED ncclResult_t nccl##name parameters __attribute__((weak, alias("pnccl" #name))); \
  ncclResult_t pnccl##name parameters

static int reductions;

API(GetVersion, (int* version)) {
  *version = 21805;
  return ncclSuccess;
}
API(GetUniqueId, (ncclUniqueId * id)) {
  memset(id, 7, sizeof *id);
  return ncclSuccess;
}
API(CommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank)) {
  (void)id;
  if (nranks != 1 || rank != 0) return ncclInvalidArgument;
  *comm = (ncclComm_t)malloc(64);
  return ncclSuccess;
}
API(CommGetAsyncError, (ncclComm_t comm, ncclResult_t* state)) {
  (void)comm;
  *state = ncclSuccess;
  return ncclSuccess;
}
API(CommCount, (const ncclComm_t comm, int* count)) {
  (void)comm;
  *count = 1;
  return ncclSuccess;
}
API(CommUserRank, (const ncclComm_t comm, int* rank)) {
  (void)comm;
  *rank = 0;
  return ncclSuccess;
}
API(AllReduce, (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                ncclComm_t comm, cudaStream_t stream)) {
  ncclResult_t state = ncclInternalError;
  (void)op, (void)stream;
  if (ncclCommGetAsyncError(comm, &state) != ncclSuccess || state != ncclSuccess) return ncclInternalError;
  if (datatype != ncclFloat32) return ncclInvalidArgument;
  memcpy(recvbuff, sendbuff, count * sizeof(float));
  ++reductions;
  return ncclSuccess;
}
API(CommDestroy, (ncclComm_t comm)) {
  printf("counted %d\n", reductions);
  free((void*)comm);
  return ncclSuccess;
}

/* An NCCL that calls its own exports through the dynamic linker, as NVIDIA's does: its reduce-scatter is an
 * all-reduce, its bcast a broadcast. Nothing is reduced. ncclGroupEnd fails once after a negative root. */
#include "collectives/nccl_abi/nccl_abi.h"

#define EXPORT __attribute__((visibility("default")))
#define TWIN(name) __attribute__((visibility("default"), alias(#name)))

static int communicator, fail_next_end;

EXPORT ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}
EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  (void)ranks, (void)id, (void)rank;
  *comm = (ncclComm_t)(void*)&communicator;
  return ncclSuccess;
}
EXPORT ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  (void)comm;
  *count = 2;
  return ncclSuccess;
}
EXPORT ncclResult_t ncclAllReduce(const void* from, void* to, size_t n, ncclDataType_t type, ncclRedOp_t op,
                                  ncclComm_t comm, cudaStream_t stream) {
  (void)from, (void)to, (void)n, (void)type, (void)op, (void)comm, (void)stream;
  return ncclSuccess;
}
EXPORT ncclResult_t ncclReduceScatter(const void* from, void* to, size_t n, ncclDataType_t type,
                                      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return ncclAllReduce(from, to, n, type, op, comm, stream);
}
EXPORT ncclResult_t ncclBroadcast(const void* from, void* to, size_t n, ncclDataType_t type, int root,
                                  ncclComm_t comm, cudaStream_t stream) {
  (void)from, (void)to, (void)n, (void)type, (void)comm, (void)stream;
  fail_next_end = root < 0;
  return ncclSuccess;
}
EXPORT ncclResult_t ncclBcast(void* buffer, size_t n, ncclDataType_t type, int root, ncclComm_t comm,
                              cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, n, type, root, comm, stream);
}
EXPORT ncclResult_t ncclGroupStart(void) {
  return ncclSuccess;
}
EXPORT ncclResult_t ncclGroupEnd(void) {
  const ncclResult_t result = fail_next_end ? ncclSystemError : ncclSuccess;
  fail_next_end = 0;
  return result;
}
EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  (void)info;
  return ncclSuccess;
}

ncclResult_t pncclGetVersion(int* version) TWIN(ncclGetVersion);
ncclResult_t pncclCommInitRank(ncclComm_t*, int, ncclUniqueId, int) TWIN(ncclCommInitRank);
ncclResult_t pncclCommCount(const ncclComm_t, int*) TWIN(ncclCommCount);
ncclResult_t pncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t)
    TWIN(ncclAllReduce);
ncclResult_t pncclReduceScatter(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                                cudaStream_t) TWIN(ncclReduceScatter);
ncclResult_t pncclBroadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)
    TWIN(ncclBroadcast);
ncclResult_t pncclBcast(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) TWIN(ncclBcast);
ncclResult_t pncclGroupStart(void) TWIN(ncclGroupStart);
ncclResult_t pncclGroupEnd(void) TWIN(ncclGroupEnd);
ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t*) TWIN(ncclGroupSimulateEnd);

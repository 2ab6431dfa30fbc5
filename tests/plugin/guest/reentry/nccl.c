/* An NCCL that calls its own exports through the dynamic linker, as NVIDIA's does: its reduce-scatter is an
 * all-reduce, its bcast a broadcast, and a thread of its own asks for a communicator's state while that one
 * comes about (ncclCommInitRankConfig: at the next ncclGroupStart) or goes. Nothing is reduced. ncclGroupEnd
 * fails once after a negative root. */
#include <pthread.h>

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
EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* list) {
  (void)list;
  for (int i = 0; i < devices; ++i) comms[i] = (ncclComm_t)(void*)&communicator;
  return ncclSuccess;
}
EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  (void)comm;
  *state = ncclSuccess;
  return ncclSuccess;
}
static void* ask(void* comm) {
  ncclResult_t state;
  ncclCommGetAsyncError((ncclComm_t)comm, &state);
  return NULL;
}
static void ask_in_a_thread(ncclComm_t comm) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, ask, comm) == 0) pthread_join(thread, NULL);
}
static ncclComm_t* later;
EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                           ncclConfig_t* config) {
  (void)ranks, (void)id, (void)rank, (void)config;
  *comm = NULL;
  later = comm;
  return ncclInProgress;
}
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  ask_in_a_thread(comm);
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
  if (later != NULL) {
    ask_in_a_thread((ncclComm_t)(void*)&communicator);
    *later = (ncclComm_t)(void*)&communicator;
    later = NULL;
  }
  return ncclSuccess;
}
EXPORT ncclResult_t ncclGroupEnd(void) {
  const ncclResult_t result = fail_next_end ? ncclSystemError : ncclSuccess;
  fail_next_end = 0;
  return result;
}
EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  return info != NULL && *(const char*)(const void*)info == 1 ? ncclInProgress
                                                              : ncclSuccess; /* 1: launches, does not block */
}

ncclResult_t pncclGetVersion(int* version) TWIN(ncclGetVersion);
ncclResult_t pncclCommInitRank(ncclComm_t*, int, ncclUniqueId, int) TWIN(ncclCommInitRank);
ncclResult_t pncclCommInitAll(ncclComm_t*, int, const int*) TWIN(ncclCommInitAll);
ncclResult_t pncclCommInitRankConfig(ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*)
    TWIN(ncclCommInitRankConfig);
ncclResult_t pncclCommGetAsyncError(ncclComm_t, ncclResult_t*) TWIN(ncclCommGetAsyncError);
ncclResult_t pncclCommDestroy(ncclComm_t) TWIN(ncclCommDestroy);
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

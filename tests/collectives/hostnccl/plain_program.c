/* A C program as NCCL's users write it. Built twice: with the declarations of this repository and, where
 * it is present, with NVIDIA's own header. Two ranks as two threads sum one number. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "collectives/nccl_abi/nccl_abi.h"

static ncclUniqueId id;

static void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "%s: %s: %s\n", what, ncclGetErrorString(result), ncclGetLastError(NULL));
  exit(1);
}

static void* run_rank(void* argument) {
  const int rank = *(const int*)argument;
  double value = rank + 1;
  ncclComm_t comm;
  check(ncclCommInitRank(&comm, 2, id, rank), "ncclCommInitRank");
  check(ncclGroupStart(), "ncclGroupStart");
  check(ncclAllReduce(&value, &value, 1, ncclFloat64, ncclSum, comm, NULL), "ncclAllReduce");
  check(ncclGroupEnd(), "ncclGroupEnd");
  check(ncclCommDestroy(comm), "ncclCommDestroy");
  if (value == 3) return NULL;
  fprintf(stderr, "rank %d: sum is %g instead of 3\n", rank, value);
  exit(1);
}

int main(void) {
  int ranks[2] = {0, 1};
  pthread_t threads[2];
  int i;
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  for (i = 0; i < 2; ++i) {
    if (pthread_create(&threads[i], NULL, run_rank, &ranks[i]) != 0) return 1;
  }
  for (i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  puts("3");
  return 0;
}

/* A job over that NCCL:  job reduce | bcast | simulated | launching | unnamed | failed | grouped | moved |
 * ended | late | past | unended | exit | all | listed */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/nccl_abi/nccl_abi.h"

/* The twins, which no hook sees. */
ncclResult_t pncclCommInitRankConfig(ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*);
ncclResult_t pncclGroupEnd(void);

static ncclComm_t comm;
static float x[4];

static void reduce(int times) {
  for (int i = 0; i < times; ++i) ncclAllReduce(x, x, 4, ncclFloat32, ncclSum, comm, NULL);
}

static void in_a_group(int times) {
  ncclGroupStart();
  reduce(times);
  ncclGroupEnd();
}

/* Every handler runs when this thread's objects are gone already. */
static void handler(void) {
  printf("handler\n");
  ncclGroupEnd();
  in_a_group(8);
  in_a_group(100);
}

static void exit_in_a_group(void) {
  atexit(handler);
  in_a_group(8);
  ncclGroupStart();
  reduce(3);
  exit(0);
}

int main(int argc, char** argv) {
  ncclUniqueId id;
  const char* mode = argc == 2 ? argv[1] : "";
  memset(&id, 0, sizeof id);
  setvbuf(stdout, NULL, _IONBF, 0);
  if (strcmp(mode, "late") == 0 || strcmp(mode, "past") == 0) {
    if (strcmp(mode, "late") == 0) ncclCommInitRankConfig(&comm, 2, id, 0, NULL);
    if (strcmp(mode, "past") == 0) pncclCommInitRankConfig(&comm, 2, id, 0, NULL);
    ncclGroupStart();
    ncclGroupEnd();
    return comm == NULL;
  }
  if (strcmp(mode, "all") == 0 || strcmp(mode, "listed") == 0) {
    ncclComm_t comms[2] = {NULL, NULL};
    const int list[2] = {5, 3};
    return ncclCommInitAll(comms, 2, strcmp(mode, "all") == 0 ? NULL : list) != ncclSuccess;
  }
  if (ncclCommInitRank(&comm, 2, id, 0) != ncclSuccess) return 1;
  if (strcmp(mode, "exit") == 0) exit_in_a_group();
  for (int i = 0; strcmp(mode, "unended") == 0 && i < 70000; ++i) {
    ncclGroupStart();
    reduce(1);
    pncclGroupEnd();
  }
  if (strcmp(mode, "ended") == 0) return ncclCommDestroy(comm) != ncclSuccess;
  if (strcmp(mode, "reduce") == 0) ncclReduceScatter(x, x, 2, ncclFloat32, ncclSum, comm, NULL);
  if (strcmp(mode, "bcast") == 0) ncclBcast(x, 4, ncclFloat32, 0, comm, NULL);
  if (strcmp(mode, "simulated") == 0 || strcmp(mode, "launching") == 0 || strcmp(mode, "unnamed") == 0) {
    char info[64] = {0};
    if (strcmp(mode, "launching") == 0) info[0] = 1;
    ncclGroupStart();
    ncclAllReduce(x, x, 4, ncclFloat32, ncclSum, comm, NULL);
    ncclGroupSimulateEnd(strcmp(mode, "unnamed") == 0 ? NULL : (ncclSimInfo_t*)(void*)info);
  }
  if (strcmp(mode, "moved") == 0) {
    ncclGroupStart();
    ncclBroadcast(x, x, 4, ncclFloat32, 0, comm, NULL);
    printf("end\n");
    ncclGroupEnd();
  }
  if (strcmp(mode, "failed") == 0 || strcmp(mode, "grouped") == 0) {
    ncclGroupStart();
    ncclAllReduce(x, x, 4, ncclFloat32, ncclSum, comm, NULL);
    if (strcmp(mode, "failed") == 0) ncclBroadcast(x, x, 4, ncclFloat32, -1, comm, NULL);
    printf("end\n");
    ncclGroupEnd();
  }
  return 0;
}

/* A library that uses NCCL and StepGate, as a framework's extension does: how it is linked, and how its host
 * loads it, is what the tests differ in. use_nccl() makes a communicator of one rank and a gate, reduces
 * three times and prints what it saw:
 *
 *   version N            of the NCCL that it reached
 *   init CODE            of ncclCommInitRank; where it is not 0 nothing else follows
 *   group STATUS         of stepgate_add_group
 *   sum S                of the reductions, 6 when all went well
 *   and the lines of the metrics page about hooks and reductions
 *
 * With LOADER_WITHOUT_GATE in the environment it calls nothing of StepGate's: a job that knows of no plugin.
 * Compiled with LOADER_DLSYM it takes NCCL from a handle of its own instead. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LOADER_DLSYM
#define STEPGATE_NCCL_ABI_TYPES_ONLY
#endif
#include "collectives/nccl_abi/nccl_abi.h"
#include "stepgate/client.h"

#define EXPORTED __attribute__((visibility("default")))

#ifdef LOADER_DLSYM
/* POSIX lets data and function pointers convert this way. */
#define TAKE(name, parameters)                                              \
  ncclResult_t(*name) parameters;                                           \
  {                                                                         \
    void* at = dlsym(dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL), #name); \
    memcpy(&name, &at, sizeof name);                                        \
  }
#else
#define TAKE(name, parameters)
#endif

static void show_page(void) {
  char url[200], command[300], line[400];
  FILE* page;
  if (stepgate_client_metrics_url(url, sizeof url) != STEPGATE_OK || url[0] == '\0') {
    puts("no page");
    return;
  }
  /* The counters reach the page by the next poll. */
  snprintf(command, sizeof command, "sleep 0.3; env -u LD_PRELOAD curl -s %s", url);
  page = popen(command, "r");
  while (page != NULL && fgets(line, sizeof line, page) != NULL) {
    if (strncmp(line, "stepgate_hooks", 14) == 0 || strncmp(line, "stepgate_reductions", 19) == 0)
      fputs(line, stdout);
  }
  if (page != NULL) pclose(page);
}

EXPORTED int use_nccl(void) {
  TAKE(ncclGetVersion, (int*))
  TAKE(ncclGetUniqueId, (ncclUniqueId*))
  TAKE(ncclCommInitRank, (ncclComm_t*, int, ncclUniqueId, int))
  TAKE(ncclCommDestroy, (ncclComm_t))
  TAKE(ncclAllReduce, (const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  stepgate_gate* gate = NULL;
  stepgate_status status;
  int version = 0, i;
  ncclResult_t code;
  float value = 2, result = 0, sum = 0;
  memset(&id, 0, sizeof id);
  ncclGetVersion(&version);
  printf("version %d\n", version);
  code = ncclGetUniqueId(&id);
  if (code == ncclSuccess) code = ncclCommInitRank(&comm, 1, id, 0);
  printf("init %d\n", (int)code);
  fflush(stdout);
  if (code != ncclSuccess) return 0;
  if (getenv("LOADER_WITHOUT_GATE") == NULL) {
    status = stepgate_client_gate_create(NULL, &gate);
    if (status == STEPGATE_OK) status = stepgate_client_add_group(gate, comm, 0);
    printf("group %s\n", stepgate_client_status_string(status));
  }
  for (i = 0; i < 3; ++i) {
    if (ncclAllReduce(&value, &result, 1, ncclFloat32, ncclSum, comm, NULL) == ncclSuccess) sum += result;
  }
  printf("sum %g\n", sum);
  if (gate != NULL) show_page();
  fflush(stdout);
  if (gate != NULL) stepgate_client_gate_destroy(gate);
  return ncclCommDestroy(comm) == ncclSuccess ? 0 : 3;
}

/* An extension module is entered here; without a module as its answer, Python raises SystemError. */
EXPORTED void* PyInit_loader_module(void);
EXPORTED void* PyInit_loader_module(void) {
  use_nccl();
  return NULL;
}

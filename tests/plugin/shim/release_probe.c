/* A program that is linked to libnccl.so.2, and what each hooked function of it answers:
 *
 *   release_probe          through the hooks (as any program calls) and straight at the library
 *
 * One line per function: "name hook=CODE direct=CODE". Each call runs in a child of its own, with no
 * communicator, so CODE is the function's own refusal, or "signal N" where a release does not check.
 * "absent" is a function that this release lacks. Then "version N", and "init hook=CODE direct=CODE" of
 * ncclCommInitRank with one rank, which fails on a machine without a GPU. */
#define _GNU_SOURCE /* dlinfo */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives/nccl_abi/nccl_abi.h"

static float data[4];
static ncclUniqueId id;

/* X(name, argument types, arguments): every symbol that the shim hooks. */
#define HOOKED(X)                                                                                          \
  X(CommInitRank, (ncclComm_t*, int, ncclUniqueId, int), (&comm, 0, id, 0))                                \
  X(CommInitRankConfig, (ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*), (&comm, 0, id, 0, NULL))     \
  X(CommInitRankScalable, (ncclComm_t*, int, int, int, ncclUniqueId*, ncclConfig_t*),                      \
    (&comm, 0, 0, 0, &id, NULL))                                                                           \
  X(CommInitAll, (ncclComm_t*, int, const int*), (&comm, -1, NULL))                                        \
  X(CommSplit, (ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*), (NULL, 0, 0, &comm, NULL))              \
  X(CommShrink, (ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int), (NULL, NULL, 0, &comm, NULL, 0)) \
  X(CommFinalize, (ncclComm_t), (NULL))                                                                    \
  X(CommDestroy, (ncclComm_t), (NULL))                                                                     \
  X(CommAbort, (ncclComm_t), (NULL))                                                                       \
  X(CommRevoke, (ncclComm_t, int), (NULL, 0))                                                              \
  X(CommGetAsyncError, (ncclComm_t, ncclResult_t*), (NULL, &state))                                        \
  X(RedOpCreatePreMulSum, (ncclRedOp_t*, void*, ncclDataType_t, ncclScalarResidence_t, ncclComm_t),        \
    (&op, data, ncclFloat32, ncclScalarHostImmediate, NULL))                                               \
  X(RedOpDestroy, (ncclRedOp_t, ncclComm_t), (ncclSum, NULL))                                              \
  X(AllReduce, (const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t),        \
    (data, data, 1, ncclFloat32, ncclSum, NULL, NULL))                                                     \
  X(ReduceScatter, (const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t),    \
    (data, data, 1, ncclFloat32, ncclSum, NULL, NULL))                                                     \
  X(Reduce, (const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t),      \
    (data, data, 1, ncclFloat32, ncclSum, 0, NULL, NULL))                                                  \
  X(AllGather, (const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t),                     \
    (data, data, 1, ncclFloat32, NULL, NULL))                                                              \
  X(AlltoAll, (const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t),                      \
    (data, data, 1, ncclFloat32, NULL, NULL))                                                              \
  X(Broadcast, (const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t),                \
    (data, data, 1, ncclFloat32, 0, NULL, NULL))                                                           \
  X(Bcast, (void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t),                                 \
    (data, 1, ncclFloat32, 0, NULL, NULL))                                                                 \
  X(Gather, (const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t),                   \
    (data, data, 1, ncclFloat32, 0, NULL, NULL))                                                           \
  X(Scatter, (const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t),                  \
    (data, data, 1, ncclFloat32, 0, NULL, NULL))                                                           \
  X(Send, (const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t),                            \
    (data, 1, ncclFloat32, 0, NULL, NULL))                                                                 \
  X(Recv, (void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t),                                  \
    (data, 1, ncclFloat32, 0, NULL, NULL))                                                                 \
  X(GroupStart, (void), ())                                                                                \
  X(GroupEnd, (void), ())                                                                                  \
  X(GroupSimulateEnd, (ncclSimInfo_t*), (NULL))

static void* library;

/* In a child: what a call does must not reach the next one. */
static void answer(const char* name, int hook, char* text, size_t size) {
  int status = 0;
  const pid_t child = fork();
  if (child == 0) {
    ncclComm_t comm = NULL;
    ncclRedOp_t op;
    ncclResult_t state;
    int code = 99;
    alarm(60);
    (void)comm, (void)op, (void)state;
#define CALL(function, types, arguments)                                 \
  if (strcmp(name, #function) == 0) {                                    \
    ncclResult_t(*direct) types;                                         \
    void* at = dlsym(library, "pnccl" #function);                        \
    memcpy(&direct, &at, sizeof direct);                                 \
    code = hook ? (int)nccl##function arguments : (int)direct arguments; \
  }
    HOOKED(CALL)
    _exit(code);
  }
  if (child < 0 || waitpid(child, &status, 0) != child) {
    snprintf(text, size, "lost");
  } else if (WIFEXITED(status)) {
    snprintf(text, size, "%d", WEXITSTATUS(status));
  } else {
    snprintf(text, size, "signal%d", WTERMSIG(status));
  }
}

static void show(const char* name) {
  char strong[64], hooked[32], direct[32] = "absent";
  snprintf(strong, sizeof strong, "pnccl%s", name);
  answer(name, 1, hooked, sizeof hooked);
  if (dlsym(library, strong) != NULL) answer(name, 0, direct, sizeof direct);
  printf("%s hook=%s direct=%s\n", name, hooked, direct);
}

static int init(int hook) {
  ncclComm_t comm = NULL;
  ncclResult_t (*direct)(ncclComm_t*, int, ncclUniqueId, int);
  void* at = dlsym(library, "pncclCommInitRank");
  ncclResult_t result;
  memcpy(&direct, &at, sizeof direct);
  result = hook ? ncclCommInitRank(&comm, 1, id, 0) : direct(&comm, 1, id, 0);
  printf("init %s=%d comm=%s\n", hook ? "hook" : "direct", (int)result, comm == NULL ? "null" : "set");
  return comm != NULL ? (int)ncclCommDestroy(comm) : 0;
}

int main(void) {
  int version = 0;
  struct link_map* map;
  library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) {
    puts("no libnccl.so.2");
    return 1;
  }
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) printf("library %s\n", map->l_name);
  if (ncclGetVersion(&version) != ncclSuccess) return 2;
  printf("version %d\n", version);
  if (ncclGetUniqueId(&id) != ncclSuccess) return 3;
#define SHOW(function, types, arguments) fflush(stdout), show(#function);
  HOOKED(SHOW)
  fflush(stdout);
  return init(0) + init(1);
}

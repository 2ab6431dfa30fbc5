// The host transport as a C table: all that hostnccl and plugin/core see of libstepgate_ucx.so.
//
//   const sgt_table* t = stepgate_ucx_table(SGT_ABI_VERSION);
//   t->unique_id(&id, &error);                    // one rank, then handed to the others
//   t->world_create(&id, rank, size, &options, &world, &error);
//   t->allreduce(world, in, out, n, SGT_FLOAT32, SGT_SUM, &op, &error);
//   while ((s = t->op_progress(op, &error)) == SGT_IN_PROGRESS) {}
//   t->op_release(op);
//
// Threads: a world belongs to one thread at a time (the caller's lock, none of ours); several worlds
// of one process may run in several threads at once. Collectives of a world are started in the same
// order on every rank and may be in flight together. abort may be called from any thread.
// Ownership: buffers belong to the operation until it is released. Errors: a status and, in
// sgt_error, a sentence that names the culprit rank where there is one (culprit >= 0).
// Deadlines: every wait ends at options.timeout_seconds with SGT_TIMEOUT. After any error but
// SGT_INVALID the world is broken: later calls return the same error, world_destroy still works.
// fork: in a child process every call returns SGT_FORKED and touches nothing.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Version 2 added the fp8 types, options.cancelled, and what stands behind unique_id_at in the table; version
// 3 allreduce_wait.
#define SGT_ABI_VERSION 3u

typedef struct sgt_world sgt_world;
typedef struct sgt_op sgt_op;

typedef enum {
  SGT_OK = 0,
  SGT_IN_PROGRESS = 1,
  SGT_INVALID = 2,  // an argument; the world is unharmed
  SGT_TIMEOUT = 3,
  SGT_PEER_DEAD = 4,  // culprit names the rank
  SGT_ABORTED = 5,    // by this rank or another
  SGT_SYSTEM = 6,     // sockets, UCX, memory
  SGT_FORKED = 7,
  SGT_VERSION = 8  // another UCX already lives in this process
} sgt_status;

typedef enum {
  SGT_INT8 = 0,
  SGT_UINT8 = 1,
  SGT_INT32 = 2,
  SGT_UINT32 = 3,
  SGT_INT64 = 4,
  SGT_UINT64 = 5,
  SGT_FLOAT16 = 6,
  SGT_FLOAT32 = 7,
  SGT_FLOAT64 = 8,
  SGT_BFLOAT16 = 9,
  SGT_FLOAT8E4M3 = 10,  // no infinities; the largest is 448
  SGT_FLOAT8E5M2 = 11   // NCCL's numbers
} sgt_type;

// SGT_AVG is the sum divided by the size, in the accumulation type, rounded once.
typedef enum { SGT_SUM = 0, SGT_PROD = 1, SGT_MAX = 2, SGT_MIN = 3, SGT_AVG = 4 } sgt_reduction;

typedef struct {
  unsigned char bytes[128];
} sgt_unique_id;

typedef struct {
  sgt_status status;
  int culprit;  // rank that caused it, -1 unknown
  char message[240];
} sgt_error;

typedef struct {
  size_t size;             // sizeof(sgt_options)
  double timeout_seconds;  // of every wait; <= 0: the default, 600
  const char* transports;  // "auto", "tcp", "shm"; NULL: auto
  const char* interface;   // address or device name to listen on; NULL: loopback if all ranks are local
  // While a world is created, asked every few milliseconds in the thread that creates it: not 0 ends that
  // with SGT_ABORTED on all ranks. NULL: never.
  int (*cancelled)(void* context);
  void* context;
} sgt_options;

typedef struct {
  uint32_t abi_version;
  uint32_t size;  // sizeof(sgt_table)

  // Opens a listener in this process; the id carries its address and needs no environment. The
  // listener serves one world and goes away with it, or with the process.
  sgt_status (*unique_id)(sgt_unique_id* id, sgt_error* error);

  // Collective over all `size` ranks: returns when every rank has arrived, or at the deadline.
  sgt_status (*world_create)(const sgt_unique_id* id, int rank, int size, const sgt_options* options,
                             sgt_world** world, sgt_error* error);
  int (*world_rank)(const sgt_world* world);
  int (*world_size)(const sgt_world* world);
  // SGT_OK, or the error that broke the world. Any thread.
  sgt_status (*world_status)(const sgt_world* world, sgt_error* error);
  // Ends every operation in flight with SGT_ABORTED and tells the peers. Any thread.
  void (*world_abort)(sgt_world* world);
  // Barrier (unless broken or aborted), then closes. Operations still held are released by it.
  void (*world_destroy)(sgt_world* world);

  // Collectives. counts are elements; send == recv (or the rank's place in it) is in place.
  sgt_status (*allreduce)(sgt_world*, const void* send, void* recv, size_t count, sgt_type, sgt_reduction,
                          sgt_op** op, sgt_error*);
  sgt_status (*reduce_scatter)(sgt_world*, const void* send, void* recv, size_t recv_count, sgt_type,
                               sgt_reduction, sgt_op** op, sgt_error*);
  sgt_status (*allgather)(sgt_world*, const void* send, void* recv, size_t send_count, sgt_type, sgt_op** op,
                          sgt_error*);
  sgt_status (*broadcast)(sgt_world*, const void* send, void* recv, size_t count, sgt_type, int root,
                          sgt_op** op, sgt_error*);
  sgt_status (*barrier)(sgt_world*, sgt_op** op, sgt_error*);

  // One bounded slice of work on the world and on this operation; never sleeps. SGT_IN_PROGRESS
  // until it is done. The status is final and may be asked for again.
  sgt_status (*op_progress)(sgt_op* op, sgt_error* error);
  // Blocks: spins a little, then yields, then sleeps on the event descriptor; ends by the deadline.
  sgt_status (*op_wait)(sgt_op* op, sgt_error* error);
  void (*op_release)(sgt_op* op);

  const char* (*version)(void);  // UCX's, such as "1.13.1"

  // unique_id for ranks on other hosts: listens at an address or device name; NULL: loopback.
  sgt_status (*unique_id_at)(const char* interface, sgt_unique_id* id, sgt_error* error);

  // A new world of `count` ranks of `parent`, in the order of the list, which holds the parent's ranks and
  // this one. Collective over those alone, who must give the same list; the parent may be whole, broken or
  // aborted, and is left as it is. The culprit of an error is a rank of the new world. Calls of one rank on
  // one parent come one after the other.
  sgt_status (*world_subset)(const sgt_world* parent, const int* ranks, int count, const sgt_options* options,
                             sgt_world** child, sgt_error* error);
  // An id of this process that no world will use.
  void (*unique_id_close)(const sgt_unique_id* id);

  // recv counts on the root only; send == recv there is in place.
  sgt_status (*reduce)(sgt_world*, const void* send, void* recv, size_t count, sgt_type, sgt_reduction,
                       int root, sgt_op** op, sgt_error*);
  // `count` is of one rank's share. The root's buffer holds all shares by rank; its own share may be the
  // other buffer. The other ranks' pointer to that large buffer means nothing.
  sgt_status (*gather)(sgt_world*, const void* send, void* recv, size_t count, sgt_type, int root,
                       sgt_op** op, sgt_error*);
  sgt_status (*scatter)(sgt_world*, const void* send, void* recv, size_t count, sgt_type, int root,
                        sgt_op** op, sgt_error*);
  // Both buffers hold one share per rank. Never in place.
  sgt_status (*alltoall)(sgt_world*, const void* send, void* recv, size_t count, sgt_type, sgt_op** op,
                         sgt_error*);
  // From one rank to another, never to itself. They are matched in the order in which each of the two started
  // them, and are no part of the order of the collectives. A short send may be done before it is received. A
  // message of another length than the receiver's breaks the world of the receiver, and so everybody's.
  sgt_status (*send)(sgt_world*, const void* data, size_t count, sgt_type, int peer, sgt_op** op, sgt_error*);
  sgt_status (*recv)(sgt_world*, void* data, size_t count, sgt_type, int peer, sgt_op** op, sgt_error*);
  // out[i] = in[i] * *scalar, rounded to the type as a product of two ranks is. In place or apart. Any
  // thread.
  sgt_status (*scale)(void* out, const void* in, const void* scalar, size_t count, sgt_type);
  // allreduce, op_wait and op_release in one: what a short one costs counts.
  sgt_status (*allreduce_wait)(sgt_world*, const void* send, void* recv, size_t count, sgt_type,
                               sgt_reduction, sgt_error*);
} sgt_table;

// The only exported symbol. NULL when this build does not speak `abi_version`.
const sgt_table* stepgate_ucx_table(uint32_t abi_version);
typedef const sgt_table* (*sgt_entry)(uint32_t abi_version);
#define SGT_ENTRY_NAME "stepgate_ucx_table"
#define SGT_LIBRARY_NAME "libstepgate_ucx.so"

#ifdef __cplusplus
}  // extern "C"
#endif

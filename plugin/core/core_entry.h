// The one door between the shim (libstepgate.so) and the core (libstepgate_core.so): two C tables.
//
// The shim opens the core on first need and calls stepgate_core_entry once. From then on it forwards
// every public stepgate_* call and tells the core about communicators and reductions. Nothing is
// thrown through this door. Every hook function is safe from any thread and takes no lock across a
// call into NCCL; `before` and `after` of one operation come from the same thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/nccl_abi/nccl_abi.h"
#include "stepgate/stepgate.h"

namespace stepgate {

inline constexpr std::uint32_t kCoreAbi = 5;

// The functions of one NCCL copy that the core calls itself. A null member: that copy lacks it.
struct NcclTable {
  ncclResult_t (*GetVersion)(int*);
  ncclResult_t (*CommCount)(const ncclComm_t, int*);
  ncclResult_t (*CommUserRank)(const ncclComm_t, int*);
  ncclResult_t (*CommGetAsyncError)(ncclComm_t, ncclResult_t*);
  ncclResult_t (*AllReduce)(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                            cudaStream_t);
  const char* (*GetErrorString)(ncclResult_t);
  const char* (*GetLastError)(ncclComm_t);
};

// What the shim offers the core.
struct ShimServices {
  std::uint32_t abi;
  std::uint32_t size;
  // The table of the NCCL copy that made `comm`; nullptr when no hook ever saw it.
  const NcclTable* (*table_of)(ncclComm_t comm);
  // Around every call that the core makes into NCCL: hooks pass through meanwhile (NCCL re-enters
  // some of its own exports). Per thread, nestable.
  void (*enter_nccl)(void);
  void (*leave_nccl)(void);
  // Ways to NCCL that the hooks do not see. Null members (tests): nothing is known of them.
  void (*survey)(void) = nullptr;                // looks for some now; each is said and counted once
  void (*unhooked)(const char* from) = nullptr;  // a communicator came up that no hook saw made
  std::uint64_t (*misses_of)(std::uint32_t cause) = nullptr;  // so far; position in metrics::kMissCauseNames
};

// kMovement: a call that reduces nothing and fills `recv` (gather, broadcast, receive); only `after` tells
// it.
enum class OpKind : std::uint32_t { kAllReduce = 0, kReduceScatter = 1, kReduce = 2, kMovement = 3 };

// A reduction as the job asked for it. count: elements that this rank receives.
struct Reduction {
  OpKind kind;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;  // kReduce only
  const void* send;
  void* recv;
  std::size_t count;
  int world;  // of comm; 0 unknown
  ncclComm_t comm;
  cudaStream_t stream;
  const char* comm_name = nullptr;  // that its creation gave; lives as long as the process. nullptr: none
};

// What became of a reduction.
enum class Outcome : std::uint32_t {
  kLaunched = 0,  // enqueued on its stream, or done
  kPending = 1,   // a helper thread of NCCL launches it later: nothing may be read yet
  kDropped = 2,   // failed: the ranges it touches hold nothing
};

// Public functions that the shim forwards: X(name, parameters, arguments), all stepgate_status.
#define STEPGATE_FORWARDED_FUNCTIONS(X)                                                                      \
  X(metrics_url, (char* buffer, size_t capacity), (buffer, capacity))                                        \
  X(gate_create, (const stepgate_gate_config* config, stepgate_gate** gate), (config, gate))                 \
  X(gate_destroy, (stepgate_gate * gate), (gate))                                                            \
  X(add_group, (stepgate_gate * gate, void* comm, uint32_t flags), (gate, comm, flags))                      \
  X(remove_group, (stepgate_gate * gate, void* comm), (gate, comm))                                          \
  X(declare_range, (stepgate_gate * gate, const stepgate_range* range, uint32_t* id), (gate, range, id))     \
  X(retire_range, (stepgate_gate * gate, uint32_t id), (gate, id))                                           \
  X(retire_all, (stepgate_gate * gate), (gate))                                                              \
  X(range_absent, (stepgate_gate * gate, uint32_t id, int absent), (gate, id, absent))                       \
  X(enforce_summarize, (stepgate_gate * gate, void* stream, double* fields), (gate, stream, fields))         \
  X(enforce_decide, (stepgate_gate * gate, void* stream, const double* fields), (gate, stream, fields))      \
  X(enforce_begin, (stepgate_gate * gate, void* stream), (gate, stream))                                     \
  X(enforce_end, (stepgate_gate * gate, void* stream), (gate, stream))                                       \
  X(step_begin, (stepgate_gate * gate, void* stream), (gate, stream))                                        \
  X(scale, (stepgate_gate * gate, double* scale), (gate, scale))                                             \
  X(veto, (stepgate_gate * gate, void* stream), (gate, stream))                                              \
  X(summarize, (stepgate_gate * gate, uint32_t set, void* stream, double* summary),                          \
    (gate, set, stream, summary))                                                                            \
  X(decide, (stepgate_gate * gate, uint32_t set, void* stream), (gate, set, stream))                         \
  X(scaler_update, (stepgate_gate * gate, void* stream), (gate, stream))                                     \
  X(step_end, (stepgate_gate * gate, uint32_t set, void* stream), (gate, set, stream))                       \
  X(step_wait, (stepgate_gate * gate, uint32_t set, stepgate_decision * decision), (gate, set, decision))    \
  X(apply, (stepgate_gate * gate, uint32_t set, void* stream), (gate, set, stream))                          \
  X(outputs, (stepgate_gate * gate, uint32_t set, const stepgate_outputs_t** outputs), (gate, set, outputs)) \
  X(set_scale, (stepgate_gate * gate, double scale), (gate, scale))                                          \
  X(external_scale, (stepgate_gate * gate, const float* scale), (gate, scale))                               \
  X(observe,                                                                                                 \
    (stepgate_gate * gate, const char* name, const void* data, uint64_t count, stepgate_type type,           \
     int phase, void* stream),                                                                               \
    (gate, name, data, count, type, phase, stream))                                                          \
  X(observe_update,                                                                                          \
    (stepgate_gate * gate, const char* name, const void* before, const void* after, const void* update,      \
     uint64_t count, stepgate_type type, void* stream),                                                      \
    (gate, name, before, after, update, count, type, stream))                                                \
  X(offenders, (stepgate_gate * gate, stepgate_offender * list, size_t * count), (gate, list, count))        \
  X(job_offenders, (stepgate_gate * gate, uint64_t step, stepgate_offender * list, size_t * count),          \
    (gate, step, list, count))                                                                               \
  X(history, (stepgate_gate * gate, uint64_t after, stepgate_decision * list, size_t * count),               \
    (gate, after, list, count))                                                                              \
  X(state, (stepgate_gate * gate, stepgate_scaler_info * info), (gate, info))                                \
  X(dump, (stepgate_gate * gate, const char* path), (gate, path))                                            \
  X(state_save, (stepgate_gate * gate, void* buffer, size_t* bytes), (gate, buffer, bytes))                  \
  X(state_load, (stepgate_gate * gate, const void* blob, size_t bytes), (gate, blob, bytes))                 \
  X(reset, (stepgate_gate * gate, uint64_t generation), (gate, generation))                                  \
  X(reset_world, (stepgate_gate * gate, uint64_t generation, int world, int rank),                           \
    (gate, generation, world, rank))

struct CoreTable {
  std::uint32_t abi;
  std::uint32_t size;

  // Hooks. active() false (mode off, or start-up failed): the shim forwards and tells nothing.
  bool (*active)(void);
  // Outside of NCCL, in the thread that created it. device: where ncclCommInitAll was told to put it; -1: on
  // the thread's own.
  void (*comm_created)(ncclComm_t comm, int device);
  void (*comm_retired)(ncclComm_t comm);  // before the real Finalize/Destroy/Abort
  void (*before)(const Reduction* op);
  void (*after)(const Reduction* op, Outcome outcome);
  // ncclCommGetAsyncError said that what was pending on comm has been launched.
  void (*settled)(ncclComm_t comm);
  const char* (*last_error)(void);
  void (*warn)(const char* text);  // one line of the log, where mode and log level want it

#define STEPGATE_MEMBER(name, parameters, arguments) stepgate_status(*name) parameters;
  STEPGATE_FORWARDED_FUNCTIONS(STEPGATE_MEMBER)
#undef STEPGATE_MEMBER
};

using CoreEntry = const CoreTable* (*)(std::uint32_t abi, const ShimServices* services);
inline constexpr char kCoreEntryName[] = "stepgate_core_entry";
inline constexpr char kCoreLibraryName[] = "libstepgate_core.so";

}  // namespace stepgate

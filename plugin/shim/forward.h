// What every hook does around the real call: find it, pass through where the guard or the mode says
// so, tell the core otherwise. hooks_*.cc hold the extern "C" symbols alone.
//
// Thread: any. No lock is held across the real call.
#pragma once

#include "plugin/shim/comm_registry.h"
#include "plugin/shim/core_loader.h"
#include "plugin/shim/guard.h"
#include "plugin/shim/misses.h"
#include "plugin/shim/resolve.h"

namespace stepgate::shim {

// The copy behind a communicator; where no hook saw it created, the one its caller means (and from
// then on it is known). nullptr: there is no NCCL in this process.
const NcclCopy* copy_for(ncclComm_t comm, const void* caller) noexcept;

// Ranks of a communicator, asked once; 0 where its copy cannot say.
int comm_world(ncclComm_t comm) noexcept;

// The core's table while it wants to be told, else nullptr. Never opens anything.
const CoreTable* listening_core() noexcept;

// The fixed answer of a symbol that the running NCCL lacks; says so once per name.
ncclResult_t missing(const char* function) noexcept;

// A communicator came into being: opens the core. name: one of kept_name. device: -1 where it is the calling
// thread's.
void comm_created(ncclComm_t* comm, const NcclCopy* copy, ncclResult_t result, const char* name = nullptr,
                  int device = -1) noexcept;
// It is about to go.
void comm_retiring(ncclComm_t comm) noexcept;

// Around a reduction.
void before_reduction(Reduction& op) noexcept;
void after_reduction(const Reduction& op, ncclResult_t result) noexcept;
// ncclCommGetAsyncError was called while no hook forwards a call: by the job, or by NCCL in the middle of a
// call that the hooks did not see, as each of its calls does. entry: what was known of the communicator.
void comm_asked(ncclComm_t comm, const CommEntry& entry, const NcclCopy& copy, const void* caller) noexcept;
// Nothing is pending on a non-blocking communicator any more.
void comm_settled(ncclComm_t comm) noexcept;
// A call that reduces nothing fills data, or nothing here (nullptr). result: of the real call.
void moved(ncclComm_t comm, void* data, std::size_t count, ncclDataType_t type, cudaStream_t stream,
           ncclResult_t result) noexcept;

// Around groups. result: of the real call. Reductions of a group are told around its outermost end.
void group_started(ncclResult_t result) noexcept;
void group_ending() noexcept;
void group_ended(ncclResult_t result) noexcept;
void group_simulated() noexcept;

}  // namespace stepgate::shim

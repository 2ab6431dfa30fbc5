// Which NCCL copy made which communicator, and how many ranks it has.
//
// Thread: any. Lock: one shared mutex of its own, never held across a call into NCCL. Entries leave
// before the real Destroy or Abort runs, for NCCL hands the pointer out again.
#pragma once

#include "plugin/shim/nccl_functions.h"
#include "plugin/survey/judge.h"

namespace stepgate::shim {

struct CommEntry {
  const NcclCopy* copy = nullptr;
  int world = 0;        // 0: not known yet
  bool hooked = false;  // made or used through a hook, not only seen from inside NCCL
  survey::Cause cause = survey::Cause::kUnhooked;  // why no hook sees it, where it is not hooked
};

// A hook saw the job make or use it.
void remember_comm(ncclComm_t comm, const NcclCopy* copy) noexcept;
// It is in use, past the hooks.
void remember_unhooked(ncclComm_t comm, const NcclCopy* copy, survey::Cause cause) noexcept;
void set_comm_world(ncclComm_t comm, int world) noexcept;
// copy == nullptr: never seen.
CommEntry find_comm(ncclComm_t comm) noexcept;
void forget_comm(ncclComm_t comm) noexcept;

}  // namespace stepgate::shim

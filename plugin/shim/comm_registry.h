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
  bool hooked = false;  // made, used or ended through a hook, not only seen from inside NCCL
  survey::Cause cause = survey::Cause::kUnhooked;  // why no hook sees it, where it is not hooked
};

// A hook saw the job make or use it.
void remember_comm(ncclComm_t comm, const NcclCopy* copy) noexcept;
// It is in use, past the hooks.
void remember_unhooked(ncclComm_t comm, const NcclCopy* copy, survey::Cause cause) noexcept;
void set_comm_world(ncclComm_t comm, int world) noexcept;
// copy == nullptr: never seen, or ended.
CommEntry find_comm(ncclComm_t comm) noexcept;
// It ends, by a hook. What stays is `hooked`: threads of NCCL still ask for its state while it goes.
void forget_comm(ncclComm_t comm) noexcept;

// A creation that does not block gives its handle later. One is on its way; and whether one was, which is
// then taken to have come.
void expect_comm() noexcept;
bool take_expected_comm() noexcept;

}  // namespace stepgate::shim

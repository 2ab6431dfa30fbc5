// Which NCCL copy made which communicator, how many ranks it has and what it is called.
//
// Thread: any. Lock: one shared mutex of its own, never held across a call into NCCL. Entries leave
// before the real Destroy or Abort runs, for NCCL hands the pointer out again.
#pragma once

#include "plugin/shim/nccl_functions.h"
#include "plugin/survey/judge.h"

namespace stepgate::shim {

struct CommEntry {
  const NcclCopy* copy = nullptr;
  int world = 0;               // 0: not known yet
  const char* name = nullptr;  // nullptr: none was given. Lives as long as the process
  bool hooked = false;         // made, used or ended through a hook, not only seen from inside NCCL
  survey::Cause cause = survey::Cause::kUnhooked;  // why no hook sees it, where it is not hooked
};

// A hook saw the job make or use it.
void remember_comm(ncclComm_t comm, const NcclCopy* copy) noexcept;
// Whether a communicator ever was, of the copy in the object with this dynamic section.
bool remembered_of(survey::Address dynamic) noexcept;
// It is in use, past the hooks.
void remember_unhooked(ncclComm_t comm, const NcclCopy* copy, survey::Cause cause) noexcept;
void set_comm_world(ncclComm_t comm, int world) noexcept;
// name: one of kept_name.
void set_comm_name(ncclComm_t comm, const char* name) noexcept;
// A copy of the name that stays, the same for equal names; for nullptr, or without memory, nullptr.
// Reductions carry it past the end of their communicator, and a job has few.
const char* kept_name(const char* name) noexcept;
// copy == nullptr: never seen, or ended.
CommEntry find_comm(ncclComm_t comm) noexcept;
// It ends, by a hook. What stays is `hooked`: threads of NCCL still ask for its state while it goes.
void forget_comm(ncclComm_t comm) noexcept;

// A creation that does not block gives its handle later. One is on its way; and whether one was, which is
// then taken to have come.
void expect_comm() noexcept;
bool take_expected_comm() noexcept;

}  // namespace stepgate::shim

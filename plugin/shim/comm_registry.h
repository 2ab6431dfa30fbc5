// Which NCCL copy made which communicator, and how many ranks it has.
//
// Thread: any. Lock: one shared mutex of its own, never held across a call into NCCL. Entries leave
// before the real Destroy or Abort runs, for NCCL hands the pointer out again.
#pragma once

#include "plugin/shim/nccl_functions.h"

namespace stepgate::shim {

struct CommEntry {
  const NcclCopy* copy = nullptr;
  int world = 0;  // 0: not known yet
};

void remember_comm(ncclComm_t comm, const NcclCopy* copy) noexcept;
void set_comm_world(ncclComm_t comm, int world) noexcept;
// copy == nullptr: never seen.
CommEntry find_comm(ncclComm_t comm) noexcept;
void forget_comm(ncclComm_t comm) noexcept;

}  // namespace stepgate::shim

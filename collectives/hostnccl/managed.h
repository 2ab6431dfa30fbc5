// The edge for calls that make, change or end communicators: like edge(), and inside a group a refusal
// makes the whole group fail, as in NCCL.
//
// For the abi_*.cc files, behind edge.h. Threads: any. Order, lock, ownership: those of library.h.
#pragma once

#include "collectives/hostnccl/edge.h"

namespace stepgate::hostnccl {

template <typename Body>
ncclResult_t managed(Body body) noexcept {
  return edge([&] {
    Outcome outcome = body();
    if (!outcome.ok() && outcome.code != ncclInProgress) group_of_this_thread().poison(outcome);
    return outcome;
  });
}

}  // namespace stepgate::hostnccl

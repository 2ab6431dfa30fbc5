// The edge for calls that a group holds back, collectives and those that make, change or end communicators:
// like edge(), and inside a group a refusal, or what was thrown, makes the whole group fail, as in NCCL.
//
// For the abi_*.cc files, behind edge.h. Threads: any. Order, lock, ownership: those of library.h.
#pragma once

#include "collectives/hostnccl/edge.h"

namespace stepgate::hostnccl {

template <typename Body>
ncclResult_t managed(const Body& body) noexcept {
  return edge([&] {
    Outcome outcome = guarded(body);
    if (!outcome.ok() && outcome.code != ncclInProgress) group_of_this_thread().poison(outcome);
    return outcome;
  });
}

}  // namespace stepgate::hostnccl

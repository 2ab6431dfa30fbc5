// What the parts of hostnccl_worker share: one rank as a process of its own.
//
// Thread: the program's main one. Anything unexpected prints a sentence and ends the process with 1.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "collectives/nccl_abi/nccl_abi.h"

namespace hostnccl_worker {

struct Place {
  int rank;
  int size;
};

[[noreturn]] inline void fail(const char* what) {
  std::printf("failed: %s: %s\n", what, ncclGetLastError(nullptr));
  std::fflush(stdout);
  std::_Exit(1);
}

inline void expect(bool condition, const char* what) {
  if (!condition) fail(what);
}

inline ncclComm_t join(Place place, const ncclUniqueId& id) {
  ncclComm_t comm = nullptr;
  expect(ncclCommInitRank(&comm, place.size, id, place.rank) == ncclSuccess, "ncclCommInitRank");
  return comm;
}

// Sends, receives and the rest of what pair_worker.cc does.
void exchange_with_all(Place place, const ncclUniqueId& id);
void lose_the_sender(Place place, const ncclUniqueId& id);
void lose_the_receiver(Place place, const ncclUniqueId& id);

// Communicators out of others; a rank that dies is the last.
void split_and_work(Place place, const ncclUniqueId& id);
void lose_a_rank_in_a_split(Place place, const ncclUniqueId& id);
void shrink_after_a_death(Place place, const ncclUniqueId& id);
void shrink_after_the_first_rank_died(Place place, const ncclUniqueId& id);

// On the memory of the driver that the loader finds.
void work_on_device(Place place, const ncclUniqueId& id);
void lose_the_last_rank_of_devices(Place place, const ncclUniqueId& id);

}  // namespace hostnccl_worker

// Hands NCCL's unique id from rank 0 to the others over TCP, as jobs do over their own store.
//
// Thread: any. Order: once per run, every rank. Lock: none. Ownership: nothing stays open.
#pragma once

#include <string>

#include "integration/examples/charlm/communicator.h"

namespace stepgate::charlm {

struct Meeting {
  std::string address = "127.0.0.1";
  unsigned port = 29500;
  double seconds = 60;  // deadline
};

// Rank 0 makes the id and listens. Throws std::runtime_error when the deadline passes, naming
// the ranks that are missing.
ncclUniqueId exchange_unique_id(const Meeting& meeting, unsigned rank, unsigned world);

}  // namespace stepgate::charlm

// How a communicator comes about over a unique id, for the four functions that do it.
//
//   Creation creation{.function = "ncclCommInitRank", .size = nranks, .rank = rank, .ids = {commId}};
//   return create(creation, config, comm);     // *comm: the handle, or NULL where it fails
//
// Outside a group it connects at once, or in another thread where config.blocking is 0; inside one, at the
// outermost end. The handle is there at once in the latter two cases, and *comm is set back to NULL where the
// group comes to nothing or a blocking connection fails, so the pointer must stay until then.
// Thread: any. Lock: the library's, for moments. Ownership: the registry of handles has the communicator.
#pragma once

#include <memory>
#include <vector>

#include "collectives/hostnccl/group.h"
#include "collectives/hostnccl/library.h"
#include "collectives/nccl_abi/nccl_structs.h"

namespace stepgate::hostnccl {

struct Creation {
  const char* function = "";
  int size = 0;
  int rank = 0;
  std::vector<ncclUniqueId> ids = {};  // the first one is met under
  int id_count = 1;                    // as the caller has it; ids may be empty where it makes no sense
};

Outcome create(const Creation& creation, const ncclConfig_t* config, ncclComm_t* comm);

// All ranks of a communicator in this process.
Outcome create_all(ncclComm_t* comms, int size, const int* devices);

}  // namespace stepgate::hostnccl

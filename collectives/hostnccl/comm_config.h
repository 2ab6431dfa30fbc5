// What a program asks of one communicator by ncclConfig_t: checked as NCCL 2.28.9 checks it (parseCommConfig
// in its init.cc). Of all members only `blocking` means something here.
//
//   bool blocking = true;
//   Outcome o = read_comm_config(config, &blocking);   // NULL: all defaults
//
// A pure function: any thread, no order, no lock. Of a struct that says it is shorter, or comes from an older
// release, only the members that it has are read.
#pragma once

#include "collectives/hostnccl/outcome.h"
#include "collectives/nccl_abi/nccl_structs.h"

namespace stepgate::hostnccl {

Outcome read_comm_config(const ncclConfig_t* config, bool* blocking);

// Checks the struct as ncclGroupSimulateEnd does, and says that the time is unknown: nothing is modelled.
Outcome answer_simulation(ncclSimInfo_t* info);

}  // namespace stepgate::hostnccl

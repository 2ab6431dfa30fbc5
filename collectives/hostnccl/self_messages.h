// What a rank sends to itself: no message, but a copy from the buffer of an ncclSend to that of an ncclRecv
// of the same group, matched in the order of the calls on each communicator.
//
//   if (Outcome o = check_self_messages(calls); !o.ok()) return o;   // before anything of the group starts
//   copy_self_messages(calls);                                       // on memory that this thread may read
//
// Plain functions over the caller's calls; any thread. The buffers belong to the calls.
#pragma once

#include <vector>

#include "collectives/hostnccl/flight.h"
#include "collectives/hostnccl/outcome.h"

namespace stepgate::hostnccl {

bool is_self_message(const Call& call) noexcept;

// ncclInvalidUsage, as NCCL's, where one half is missing; ncclInvalidArgument where the lengths differ.
Outcome check_self_messages(const std::vector<Call>& calls);

// Where the communicator is whole.
void copy_self_messages(const std::vector<Call>& calls);

}  // namespace stepgate::hostnccl

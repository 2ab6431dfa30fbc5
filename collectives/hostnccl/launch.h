// How the operations of one call or one group get under way: at once and to the end on the host's memory,
// onto the streams for a device's, in a thread of their own for communicators that do not block.
//
//   Outcome o = launch(std::move(calls));
//
// Returns ncclInProgress where another thread does it. Blocking and non-blocking communicators, or host
// and device memory, are not mixed in one group.
// Threads: any; the locks are those of flight.h and staging.h. Ownership: holds the communicators alive.
#pragma once

#include <vector>

#include "collectives/hostnccl/flight.h"
#include "collectives/hostnccl/outcome.h"

namespace stepgate::hostnccl {

Outcome launch(std::vector<Call> calls);
// The same for a call outside a group.
Outcome launch_one(Call call);
// In a thread of its own that does not block the program: the outcome becomes that of the communicators.
void launch_later(const std::vector<Call>& calls) noexcept;

}  // namespace stepgate::hostnccl

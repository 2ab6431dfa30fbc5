// A batch of operations that are in flight together: one outside a group, many at its end.
//
//   std::vector<Call> calls = ...;     // on memory that this thread may read and write
//   Outcome o = fly(calls);
//
// Runs in the calling thread and returns when every started operation is final; every wait inside ends
// at the communicator's deadline. Locks: use() of every communicator of the batch, taken in one order
// (by address) so that two batches cannot wait for each other. Holds the communicators alive; the
// buffers stay the caller's.
//
// Order: per communicator, started in the order of the calls. An operation that cannot start ends the
// starting on its communicator only; what has been started is waited for, and the first failure in the
// order of the calls is returned.
#pragma once

#include <memory>
#include <vector>

#include "collectives/hostnccl/communicator.h"
#include "collectives/hostnccl/memory_place.h"
#include "collectives/hostnccl/outcome.h"
#include "collectives/hostnccl/request.h"

namespace stepgate::hostnccl {

struct Call {
  std::shared_ptr<Communicator> comm;
  Request request;
  Place place = {};
  cuda::Stream stream = nullptr;  // means nothing for the host's memory
  bool scalar_on_device = false;  // where request.premul.pointer leads
};

std::vector<std::shared_ptr<Communicator>> communicators_of(const std::vector<Call>& calls);

Outcome fly(const std::vector<Call>& calls);
// A single one, that is no message of a rank to itself: as above, without a group's books.
Outcome fly_alone(const Call& call);
// The same, with what became of each call.
std::vector<Outcome> fly_each(const std::vector<Call>& calls);

}  // namespace stepgate::hostnccl

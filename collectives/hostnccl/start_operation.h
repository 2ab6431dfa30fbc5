// How a request becomes an operation of the transport, or a copy where a communicator has one rank.
//
//   sgt_status status = start_operation(*table, world, rank, size, request, &operation, &error);
//
// Threads: one at a time per communicator (its use()). Order: collectives as the transport's. Ownership: the
// operation keeps what it needs besides the caller's buffers.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/hostnccl/request.h"
#include "collectives/ucx/transport.h"

namespace stepgate::hostnccl {

// One started operation. Released by Communicator::finish, or with the world.
struct Operation {
  sgt_op* op = nullptr;            // NULL: already complete
  std::vector<std::byte> scratch;  // what this rank sends, multiplied by its scalar
};

sgt_status start_operation(const sgt_table& table, sgt_world* world, int rank, int size,
                           const Request& request, Operation* operation, sgt_error* error);

// An all-reduce without a scalar, done when it returns.
sgt_status allreduce_now(const sgt_table& table, sgt_world* world, const Request& request, sgt_error* error);

// Not for messages: a rank's to itself are self_messages.h's.
void run_alone(const Request& request);

}  // namespace stepgate::hostnccl

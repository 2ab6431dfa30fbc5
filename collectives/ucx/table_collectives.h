// The collectives' and the pairs' functions of the C table; table.cc puts them there. Thread, order, lock and
// ownership: transport.h's.
#pragma once

#include "collectives/ucx/transport.h"

namespace stepgate::transport {

sgt_status allreduce(sgt_world* world, const void* send, void* recv, size_t count, sgt_type type,
                     sgt_reduction reduction, sgt_op** op, sgt_error* error);
sgt_status allreduce_wait(sgt_world* world, const void* send, void* recv, size_t count, sgt_type type,
                          sgt_reduction reduction, sgt_error* error);
sgt_status reduce_scatter(sgt_world* world, const void* send, void* recv, size_t recv_count, sgt_type type,
                          sgt_reduction reduction, sgt_op** op, sgt_error* error);
sgt_status allgather(sgt_world* world, const void* send, void* recv, size_t send_count, sgt_type type,
                     sgt_op** op, sgt_error* error);
sgt_status broadcast(sgt_world* world, const void* send, void* recv, size_t count, sgt_type type, int root,
                     sgt_op** op, sgt_error* error);
sgt_status barrier(sgt_world* world, sgt_op** op, sgt_error* error);
sgt_status reduce(sgt_world* world, const void* send, void* recv, size_t count, sgt_type type,
                  sgt_reduction reduction, int root, sgt_op** op, sgt_error* error);
sgt_status gather(sgt_world* world, const void* send, void* recv, size_t count, sgt_type type, int root,
                  sgt_op** op, sgt_error* error);
sgt_status scatter(sgt_world* world, const void* send, void* recv, size_t count, sgt_type type, int root,
                   sgt_op** op, sgt_error* error);
sgt_status alltoall(sgt_world* world, const void* send, void* recv, size_t count, sgt_type type, sgt_op** op,
                    sgt_error* error);
sgt_status send(sgt_world* world, const void* data, size_t count, sgt_type type, int peer, sgt_op** op,
                sgt_error* error);
sgt_status recv(sgt_world* world, void* data, size_t count, sgt_type type, int peer, sgt_op** op,
                sgt_error* error);
sgt_status scale(void* out, const void* in, const void* scalar, size_t count, sgt_type type);

}  // namespace stepgate::transport

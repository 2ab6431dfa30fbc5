// The C edge: collectives and messages between two ranks. Thread: as transport.h says.
#include "collectives/ucx/table_collectives.h"

#include "collectives/ucx/edge.h"

namespace stepgate::transport {
namespace {

// `times`: how many counts the larger buffer holds.
void check_length(size_t count, sgt_type type, int times) {
  const size_t width = width_of(type);
  if (width == 0) refuse("the type is " + number(type) + "; allowed: 0..11");
  require(count <= std::numeric_limits<ptrdiff_t>::max() / width / static_cast<size_t>(times),
          "the count does not fit into memory");
}

void check_buffers(const void* send, const void* recv, size_t count, sgt_type type, int times) {
  check_length(count, type, times);
  require(count == 0 || (send != nullptr && recv != nullptr), "a buffer is NULL and the count is not 0");
}

void check_reduction(sgt_reduction reduction) {
  if (reduction < SGT_SUM || reduction > SGT_AVG)
    refuse("the reduction is " + number(reduction) + "; allowed: 0..4");
}

void check_member(const char* what, int rank, int size) {
  if (rank < 0 || rank >= size)
    refuse(std::string("the ") + what + " is " + number(rank) + "; allowed: 0.." + number(size - 1));
}

// Another rank: a message to itself would wait for its own other half.
void check_peer(int peer, const World& world) {
  check_member("peer", peer, world.size());
  require(peer != world.rank(), "the peer is this rank itself; allowed: another");
}

}  // namespace

sgt_status allreduce(sgt_world* world, const void* send, void* recv, size_t count, sgt_type type,
                     sgt_reduction reduction, sgt_op** op, sgt_error* error) {
  return start(world, op, error, [&](World& w) {
    check_buffers(send, recv, count, type, 1);
    check_reduction(reduction);
    return w.allreduce(send, recv, count, type, reduction);
  });
}

sgt_status allreduce_wait(sgt_world* world, const void* send, void* recv, size_t count, sgt_type type,
                          sgt_reduction reduction, sgt_error* error) {
  return guarded(error, [&] {
    require(world != nullptr, "world is NULL");
    check_buffers(send, recv, count, type, 1);
    check_reduction(reduction);
    Failure failure;
    const sgt_status status = world->world->allreduce_wait(send, recv, count, type, reduction, &failure);
    return status == SGT_OK ? status : answer(error, failure);
  });
}

sgt_status reduce_scatter(sgt_world* world, const void* send, void* recv, size_t recv_count, sgt_type type,
                          sgt_reduction reduction, sgt_op** op, sgt_error* error) {
  return start(world, op, error, [&](World& w) {
    check_buffers(send, recv, recv_count, type, w.size());
    check_reduction(reduction);
    return w.reduce_scatter(send, recv, recv_count, type, reduction);
  });
}

sgt_status allgather(sgt_world* world, const void* send, void* recv, size_t send_count, sgt_type type,
                     sgt_op** op, sgt_error* error) {
  return start(world, op, error, [&](World& w) {
    check_buffers(send, recv, send_count, type, w.size());
    return w.allgather(send, recv, send_count, type);
  });
}

sgt_status broadcast(sgt_world* world, const void* send, void* recv, size_t count, sgt_type type, int root,
                     sgt_op** op, sgt_error* error) {
  return start(world, op, error, [&](World& w) {
    check_member("root", root, w.size());
    check_buffers(w.rank() == root ? send : recv, recv, count, type, 1);  // send counts on the root only
    return w.broadcast(send, recv, count, type, root);
  });
}

sgt_status barrier(sgt_world* world, sgt_op** op, sgt_error* error) {
  return start(world, op, error, [](World& w) { return w.barrier(); });
}

sgt_status reduce(sgt_world* world, const void* send, void* recv, size_t count, sgt_type type,
                  sgt_reduction reduction, int root, sgt_op** op, sgt_error* error) {
  return start(world, op, error, [&](World& w) {
    check_member("root", root, w.size());
    check_buffers(send, w.rank() == root ? recv : send, count, type, 1);
    check_reduction(reduction);
    return w.reduce(send, recv, count, type, reduction, root);
  });
}

sgt_status gather(sgt_world* world, const void* send, void* recv, size_t count, sgt_type type, int root,
                  sgt_op** op, sgt_error* error) {
  return start(world, op, error, [&](World& w) {
    check_member("root", root, w.size());
    check_buffers(send, w.rank() == root ? recv : send, count, type, w.size());
    return w.gather(send, recv, count, type, root);
  });
}

sgt_status scatter(sgt_world* world, const void* send, void* recv, size_t count, sgt_type type, int root,
                   sgt_op** op, sgt_error* error) {
  return start(world, op, error, [&](World& w) {
    check_member("root", root, w.size());
    check_buffers(w.rank() == root ? send : recv, recv, count, type, w.size());
    return w.scatter(send, recv, count, type, root);
  });
}

sgt_status alltoall(sgt_world* world, const void* send, void* recv, size_t count, sgt_type type, sgt_op** op,
                    sgt_error* error) {
  return start(world, op, error, [&](World& w) {
    check_buffers(send, recv, count, type, w.size());
    return w.alltoall(send, recv, count, type);
  });
}

sgt_status send(sgt_world* world, const void* data, size_t count, sgt_type type, int peer, sgt_op** op,
                sgt_error* error) {
  return start(world, op, error, [&](World& w) {
    check_peer(peer, w);
    check_buffers(data, data, count, type, 1);
    return w.send(data, count * width_of(type), peer);
  });
}

sgt_status recv(sgt_world* world, void* data, size_t count, sgt_type type, int peer, sgt_op** op,
                sgt_error* error) {
  return start(world, op, error, [&](World& w) {
    check_peer(peer, w);
    check_buffers(data, data, count, type, 1);
    return w.receive(data, count * width_of(type), peer);
  });
}

// No world, nothing of UCX: a forked child may call it too.
sgt_status scale(void* out, const void* in, const void* scalar, size_t count, sgt_type type) {
  if (width_of(type) == 0 || scalar == nullptr) return SGT_INVALID;
  if (count != 0 && (out == nullptr || in == nullptr)) return SGT_INVALID;
  scale_elements(out, in, scalar, count, type);
  return SGT_OK;
}

}  // namespace stepgate::transport

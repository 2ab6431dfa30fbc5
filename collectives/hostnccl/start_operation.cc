#include "collectives/hostnccl/start_operation.h"

#include <cstring>

namespace stepgate::hostnccl {
namespace {

static_assert(int{SGT_INT8} == int{ncclInt8} && int{SGT_UINT8} == int{ncclUint8} &&
                  int{SGT_INT32} == int{ncclInt32} && int{SGT_UINT32} == int{ncclUint32} &&
                  int{SGT_INT64} == int{ncclInt64} && int{SGT_UINT64} == int{ncclUint64} &&
                  int{SGT_FLOAT16} == int{ncclFloat16} && int{SGT_FLOAT32} == int{ncclFloat32} &&
                  int{SGT_FLOAT64} == int{ncclFloat64} && int{SGT_BFLOAT16} == int{ncclBfloat16} &&
                  int{SGT_FLOAT8E4M3} == int{ncclFloat8e4m3} && int{SGT_FLOAT8E5M2} == int{ncclFloat8e5m2},
              "the types are cast below: give transport.h NCCL's numbers again, or write a switch");
static_assert(int{SGT_SUM} == int{ncclSum} && int{SGT_PROD} == int{ncclProd} &&
                  int{SGT_MAX} == int{ncclMax} && int{SGT_MIN} == int{ncclMin} &&
                  int{SGT_AVG} == int{ncclAvg},
              "the operators are cast below: give transport.h NCCL's numbers again, or write a switch");

// What the rank sends: its buffer, or that times its scalar. An all-reduce keeps the product where its result
// goes; elsewhere that place may be too small, or nobody's.
const void* sent(const Request& r, int size, Operation* operation) {
  if (!r.premul.used()) return r.send;
  const bool scatters = r.kind == Collective::kReduceScatter;
  const std::size_t elements = scatters ? r.count * static_cast<std::size_t>(size) : r.count;
  void* product = r.recv;
  if (r.kind != Collective::kAllReduce) {
    operation->scratch.resize(elements * element_bytes(r.type));
    product = operation->scratch.data();
  }
  r.premul.scale(product, r.send, r.premul.scalar(), elements, static_cast<sgt_type>(r.type));
  return product;
}

}  // namespace

sgt_status start_operation(const sgt_table& table, sgt_world* world, int rank, int size, const Request& r,
                           Operation* operation, sgt_error* error) {
  const auto type = static_cast<sgt_type>(r.type);
  const auto op = static_cast<sgt_reduction>(r.op);
  sgt_op** out = &operation->op;
  switch (r.kind) {
    case Collective::kAllReduce:
      return table.allreduce(world, sent(r, size, operation), r.recv, r.count, type, op, out, error);
    case Collective::kReduceScatter:
      return table.reduce_scatter(world, sent(r, size, operation), r.recv, r.count, type, op, out, error);
    case Collective::kReduce:
      return table.reduce(world, sent(r, size, operation), r.recv, r.count, type, op, r.root, out, error);
    case Collective::kAllGather: return table.allgather(world, r.send, r.recv, r.count, type, out, error);
    case Collective::kBroadcast: {
      // Only the root's send buffer means anything; the others may pass what they like.
      const void* send = r.root == rank ? r.send : r.recv;
      return table.broadcast(world, send, r.recv, r.count, type, r.root, out, error);
    }
    case Collective::kGather: return table.gather(world, r.send, r.recv, r.count, type, r.root, out, error);
    case Collective::kScatter: return table.scatter(world, r.send, r.recv, r.count, type, r.root, out, error);
    case Collective::kAlltoAll: return table.alltoall(world, r.send, r.recv, r.count, type, out, error);
    case Collective::kSend: return table.send(world, r.send, r.count, type, r.root, out, error);
    case Collective::kRecv: return table.recv(world, r.recv, r.count, type, r.root, out, error);
  }
  return SGT_INVALID;
}

sgt_status allreduce_now(const sgt_table& table, sgt_world* world, const Request& r, sgt_error* error) {
  return table.allreduce_wait(world, r.send, r.recv, r.count, static_cast<sgt_type>(r.type),
                              static_cast<sgt_reduction>(r.op), error);
}

void run_alone(const Request& r) {
  if (r.premul.used()) {
    r.premul.scale(r.recv, r.send, r.premul.scalar(), r.count, static_cast<sgt_type>(r.type));
  } else if (r.send != r.recv) {
    std::memcpy(r.recv, r.send, r.count * element_bytes(r.type));
  }
}

}  // namespace stepgate::hostnccl

// NCCL's C ABI: adapters only, the operators that a program makes itself.
//
// Threads: as NCCL's; see red_ops.h.
#include "collectives/hostnccl/edge.h"

namespace stepgate::hostnccl {
namespace {

Outcome read_scalar(const void* scalar, int type, int residence, PreMul* premul) {
  if (residence != ncclScalarHostImmediate) {
    premul->pointer = scalar;
    return success();
  }
  const std::size_t size = element_bytes(type);
  if (size == 0) {
    // NCCL's code for it.
    return {ncclInternalError, "ncclRedOpCreatePreMulSum: datatype " + std::to_string(type) +
                                   " is unknown; allowed: 0 to " + std::to_string(ncclNumTypes - 1)};
  }
  std::memcpy(premul->value.data(), scalar, size);
  return success();
}

Outcome create(ncclRedOp_t* op, const void* scalar, int type, int residence,
               const std::shared_ptr<Communicator>& comm) {
  if (Outcome o = comm->ready(); !o.ok()) return o;
  if (Outcome o = require(op, "op"); !o.ok()) return o;
  if (Outcome o = require(scalar, "scalar"); !o.ok()) return o;
  PreMul premul;
  if (Outcome o = read_scalar(scalar, type, residence, &premul); !o.ok()) return o;
  const sgt_table* table = nullptr;
  if (Outcome o = Library::of_this_process().load_transport(&table); !o.ok()) return o;
  premul.scale = table->scale;
  const int made = Library::of_this_process().next_red_op();
  comm->red_ops().create(made, premul, type);
  std::memcpy(op, &made, sizeof made);
  return success();
}

Outcome destroy(int op, ncclComm_t handle) {
  if (op >= 0 && op < ncclNumOps) {
    return invalid_argument("ncclRedOpDestroy: operator " + std::to_string(op) + " is one of NCCL's own");
  }
  if (op < 0) return invalid_argument("ncclRedOpDestroy: operator " + std::to_string(op) + " is none");
  return with_comm(handle, [&](const auto& comm) { return comm->red_ops().destroy(op); });
}

}  // namespace
}  // namespace stepgate::hostnccl

using namespace stepgate::hostnccl;  // NOLINT(google-build-using-namespace): nothing but adapters below

STEPGATE_NCCL_API(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar,
                  ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm) {
  return edge([&] {
    return with_comm(comm, [&](const auto& found) {
      return create(op, scalar, number(datatype), number(residence), found);
    });
  });
}

STEPGATE_NCCL_API(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm) {
  return edge([&] { return destroy(number(op), comm); });
}

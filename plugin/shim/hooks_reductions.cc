// Hooks: the reductions, which may carry gradients. ABI adapters only.
#include "plugin/shim/forward.h"

#define STEPGATE_HOOK extern "C" __attribute__((visibility("default")))

using namespace stepgate;
using namespace stepgate::shim;

STEPGATE_HOOK ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                         ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                         cudaStream_t stream) {
  const NcclCopy* copy = copy_for(comm, __builtin_return_address(0));
  if (copy == nullptr || copy->functions.AllReduce == nullptr) return missing("ncclAllReduce");
  const auto call = copy->functions.AllReduce;
  if (inside_nccl()) return call(sendbuff, recvbuff, count, datatype, op, comm, stream);
  Reduction r{OpKind::kAllReduce, datatype, op, 0, sendbuff, recvbuff, count, 0, comm, stream};
  before_reduction(r);
  ncclResult_t result;
  {
    const InsideNccl guard;
    result = call(sendbuff, recvbuff, count, datatype, op, comm, stream);
  }
  after_reduction(r, result);
  return result;
}

STEPGATE_HOOK ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                             ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                             cudaStream_t stream) {
  const NcclCopy* copy = copy_for(comm, __builtin_return_address(0));
  if (copy == nullptr || copy->functions.ReduceScatter == nullptr) return missing("ncclReduceScatter");
  const auto call = copy->functions.ReduceScatter;
  if (inside_nccl()) return call(sendbuff, recvbuff, recvcount, datatype, op, comm, stream);
  Reduction r{OpKind::kReduceScatter, datatype, op, 0, sendbuff, recvbuff, recvcount, 0, comm, stream};
  before_reduction(r);
  ncclResult_t result;
  {
    const InsideNccl guard;
    result = call(sendbuff, recvbuff, recvcount, datatype, op, comm, stream);
  }
  after_reduction(r, result);
  return result;
}

STEPGATE_HOOK ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count,
                                      ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                                      cudaStream_t stream) {
  const NcclCopy* copy = copy_for(comm, __builtin_return_address(0));
  if (copy == nullptr || copy->functions.Reduce == nullptr) return missing("ncclReduce");
  const auto call = copy->functions.Reduce;
  if (inside_nccl()) return call(sendbuff, recvbuff, count, datatype, op, root, comm, stream);
  // Elsewhere than on the root the receive buffer is not written, and may be NULL.
  Reduction r{OpKind::kReduce, datatype, op, root, sendbuff, recvbuff, count, 0, comm, stream};
  int rank = -1;
  if (copy->functions.CommUserRank != nullptr) {
    const InsideNccl guard;
    copy->functions.CommUserRank(comm, &rank);
  }
  if (rank != root) r.recv = nullptr;
  before_reduction(r);
  ncclResult_t result;
  {
    const InsideNccl guard;
    result = call(sendbuff, recvbuff, count, datatype, op, root, comm, stream);
  }
  after_reduction(r, result);
  return result;
}

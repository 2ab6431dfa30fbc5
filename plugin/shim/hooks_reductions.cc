// Hooks: the reductions, which may carry gradients. ABI adapters only.
#include "plugin/shim/forward.h"

#define STEPGATE_HOOK extern "C" __attribute__((visibility("default")))

using namespace stepgate;
using namespace stepgate::shim;

namespace {

// Tells the core before and after; from inside NCCL it only calls.
template <class Call>
ncclResult_t reduce_through(Reduction r, Call call) {
  if (inside_nccl()) return call();
  before_reduction(r);
  ncclResult_t result;
  {
    const InsideNccl guard;
    result = call();
  }
  after_reduction(r, result);
  return result;
}

// Elsewhere than on the root a reduce does not write its receive buffer, which may be NULL.
void* written_by_reduce(const NcclCopy& copy, ncclComm_t comm, int root, void* recvbuff) {
  int rank = -1;
  if (copy.functions.CommUserRank != nullptr) {
    const InsideNccl guard;
    copy.functions.CommUserRank(comm, &rank);
  }
  return rank == root ? recvbuff : nullptr;
}

}  // namespace

STEPGATE_HOOK ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                         ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                         cudaStream_t stream) {
  const NcclCopy* copy = copy_for(comm, __builtin_return_address(0));
  if (copy == nullptr || copy->functions.AllReduce == nullptr) return missing("ncclAllReduce");
  return reduce_through(
      {OpKind::kAllReduce, datatype, op, 0, sendbuff, recvbuff, count, 0, comm, stream},
      [&] { return copy->functions.AllReduce(sendbuff, recvbuff, count, datatype, op, comm, stream); });
}

STEPGATE_HOOK ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                             ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                             cudaStream_t stream) {
  const NcclCopy* copy = copy_for(comm, __builtin_return_address(0));
  if (copy == nullptr || copy->functions.ReduceScatter == nullptr) return missing("ncclReduceScatter");
  return reduce_through(
      {OpKind::kReduceScatter, datatype, op, 0, sendbuff, recvbuff, recvcount, 0, comm, stream}, [&] {
        return copy->functions.ReduceScatter(sendbuff, recvbuff, recvcount, datatype, op, comm, stream);
      });
}

STEPGATE_HOOK ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count,
                                      ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                                      cudaStream_t stream) {
  const NcclCopy* copy = copy_for(comm, __builtin_return_address(0));
  if (copy == nullptr || copy->functions.Reduce == nullptr) return missing("ncclReduce");
  void* written = written_by_reduce(*copy, comm, root, recvbuff);
  return reduce_through(
      {OpKind::kReduce, datatype, op, root, sendbuff, written, count, 0, comm, stream},
      [&] { return copy->functions.Reduce(sendbuff, recvbuff, count, datatype, op, root, comm, stream); });
}

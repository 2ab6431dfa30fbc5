// Hooks: calls that move data without reducing it. They only tell the core what memory they wrote, so
// that statistics taken there before are not believed, and when: in groups and on communicators that do not
// block that is later than the call. ABI adapters only.
#include "plugin/shim/forward.h"

#define STEPGATE_HOOK extern "C" __attribute__((visibility("default")))

using namespace stepgate;
using namespace stepgate::shim;

// written, elements: the memory that the call fills on this rank. Both are worked out ahead of the call:
// behind it a communicator that does not block answers nothing, and NCCL's last error would be ours.
#define STEPGATE_MOVEMENT(name, written, elements, parameters, ...)                       \
  STEPGATE_HOOK ncclResult_t nccl##name parameters {                                      \
    const NcclCopy* copy = copy_for(comm, __builtin_return_address(0));                   \
    if (copy == nullptr || copy->functions.name == nullptr) return missing("nccl" #name); \
    const bool told = !inside_nccl() && listening_core() != nullptr;                      \
    const size_t filled = told ? (elements) : 0;                                          \
    ncclResult_t result;                                                                  \
    {                                                                                     \
      const InsideNccl guard;                                                             \
      result = copy->functions.name(__VA_ARGS__);                                         \
    }                                                                                     \
    if (told) moved(comm, written, filled, datatype, stream, result);                     \
    return result;                                                                        \
  }

namespace {

// Elements that a call fills which receives one block per rank; at least the one that is certain.
size_t times_world(size_t count, ncclComm_t comm) {
  const int world = comm_world(comm);
  return world > 0 ? count * static_cast<size_t>(world) : count;
}

}  // namespace

STEPGATE_MOVEMENT(AllGather, recvbuff, times_world(sendcount, comm),
                  (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                   ncclComm_t comm, cudaStream_t stream),
                  sendbuff, recvbuff, sendcount, datatype, comm, stream)
STEPGATE_MOVEMENT(AlltoAll, recvbuff, times_world(count, comm),
                  (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                   ncclComm_t comm, cudaStream_t stream),
                  sendbuff, recvbuff, count, datatype, comm, stream)
STEPGATE_MOVEMENT(Broadcast, recvbuff, count,
                  (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                   ncclComm_t comm, cudaStream_t stream),
                  sendbuff, recvbuff, count, datatype, root, comm, stream)
STEPGATE_MOVEMENT(Bcast, buff, count,
                  (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                   cudaStream_t stream),
                  buff, count, datatype, root, comm, stream)
STEPGATE_MOVEMENT(Gather, recvbuff, times_world(count, comm),
                  (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                   ncclComm_t comm, cudaStream_t stream),
                  sendbuff, recvbuff, count, datatype, root, comm, stream)
STEPGATE_MOVEMENT(Scatter, recvbuff, count,
                  (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                   ncclComm_t comm, cudaStream_t stream),
                  sendbuff, recvbuff, count, datatype, root, comm, stream)
STEPGATE_MOVEMENT(Send, static_cast<void*>(nullptr), count,
                  (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                   cudaStream_t stream),
                  sendbuff, count, datatype, peer, comm, stream)
STEPGATE_MOVEMENT(Recv, recvbuff, count,
                  (void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                   cudaStream_t stream),
                  recvbuff, count, datatype, peer, comm, stream)

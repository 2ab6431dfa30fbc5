// NCCL's C ABI: adapters only, the collectives and groups.
//
// Threads: as NCCL's; see group.h and launch.h for what stands behind each call. On the host's memory a
// stream means nothing: any value, NULL included, is accepted.
#include <utility>

#include "collectives/hostnccl/comm_config.h"
#include "collectives/hostnccl/managed.h"
#include "collectives/hostnccl/memory_place.h"
#include "collectives/hostnccl/self_messages.h"
#include "collectives/hostnccl/stream_copy.h"

namespace stepgate::hostnccl {
namespace {

// The driver, if this process has one. Whether one was loaded since the last call is asked of the dynamic
// linker, under its lock, which is a sixth of a short all-reduce. Buffers that this thread has just used as
// the host's are still that: to be a device's they would have to be freed, and a driver to be loaded and to
// give the very same two addresses, within a few calls.
const Cuda* driver_for(const Request& request) {
  struct Seen {
    const void* send;
    const void* recv;
    unsigned trusted;  // calls
  };
  static thread_local Seen last{};
  constexpr unsigned kTrusted = 16;
  const bool same = last.send == request.send && last.recv == request.recv;
  if (same && last.trusted != 0 && !request.premul.used()) {
    --last.trusted;
    return nullptr;
  }
  const Cuda* const cuda = Library::of_this_process().cuda();
  last = {request.send, request.recv, cuda == nullptr ? kTrusted : 0};
  return cuda;
}

// NCCL drops what has no elements, and copies at once where there is one rank, in a group too.
Outcome submit(ncclComm_t handle, Request request, cudaStream_t stream) {
  return with_comm(handle, [&](std::shared_ptr<Communicator>& held) {
    Communicator* const comm = held.get();
    if (Outcome o = comm->red_ops().resolve(&request); !o.ok()) return o;
    if (Outcome o = check(request, comm->rank(), comm->size()); !o.ok()) return o;
    if (Outcome o = comm->ready(); !o.ok()) return o;
    if (request.count == 0) return success();
    Call call{std::move(held), request, {}, stream, false};
    const Cuda* const cuda = driver_for(request);
    if (Outcome o = place_of(cuda, request, comm->rank(), comm->size(), &call.place); !o.ok()) return o;
    if (Outcome o = place_of_scalar(cuda, request, call.place, &call.scalar_on_device); !o.ok()) return o;
    const bool copies = comm->size() == 1 && !request.premul.used() && !is_self_message(call);
    if (call.place.device() && copies) return copy_on_stream(call);
    return group_of_this_thread().submit(std::move(call));
  });
}

ncclResult_t collective(ncclComm_t handle, cudaStream_t stream, const Request& request) noexcept {
  return managed([&] { return submit(handle, request, stream); });
}

}  // namespace
}  // namespace stepgate::hostnccl

using namespace stepgate::hostnccl;  // NOLINT(google-build-using-namespace): nothing but adapters below

STEPGATE_NCCL_API(ncclResult_t, ncclAllReduce, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {Collective::kAllReduce, sendbuff, recvbuff, count, number(datatype), number(op), 0});
}

STEPGATE_NCCL_API(ncclResult_t, ncclReduceScatter, const void* sendbuff, void* recvbuff, size_t recvcount,
                  ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective(
      comm, stream,
      {Collective::kReduceScatter, sendbuff, recvbuff, recvcount, number(datatype), number(op), 0});
}

STEPGATE_NCCL_API(ncclResult_t, ncclAllGather, const void* sendbuff, void* recvbuff, size_t sendcount,
                  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {Collective::kAllGather, sendbuff, recvbuff, sendcount, number(datatype), ncclSum, 0});
}

STEPGATE_NCCL_API(ncclResult_t, ncclBroadcast, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {Collective::kBroadcast, sendbuff, recvbuff, count, number(datatype), ncclSum, root});
}

STEPGATE_NCCL_API(ncclResult_t, ncclBcast, void* buff, size_t count, ncclDataType_t datatype, int root,
                  ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {Collective::kBroadcast, buff, buff, count, number(datatype), ncclSum, root});
}

STEPGATE_NCCL_API(ncclResult_t, ncclReduce, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {Collective::kReduce, sendbuff, recvbuff, count, number(datatype), number(op), root});
}

STEPGATE_NCCL_API(ncclResult_t, ncclGather, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {Collective::kGather, sendbuff, recvbuff, count, number(datatype), ncclSum, root});
}

STEPGATE_NCCL_API(ncclResult_t, ncclScatter, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {Collective::kScatter, sendbuff, recvbuff, count, number(datatype), ncclSum, root});
}

STEPGATE_NCCL_API(ncclResult_t, ncclAlltoAll, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {Collective::kAlltoAll, sendbuff, recvbuff, count, number(datatype), ncclSum, 0});
}

STEPGATE_NCCL_API(ncclResult_t, ncclSend, const void* sendbuff, size_t count, ncclDataType_t datatype,
                  int peer, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {Collective::kSend, sendbuff, nullptr, count, number(datatype), ncclSum, peer});
}

STEPGATE_NCCL_API(ncclResult_t, ncclRecv, void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                  ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {Collective::kRecv, nullptr, recvbuff, count, number(datatype), ncclSum, peer});
}

STEPGATE_NCCL_API(ncclResult_t, ncclGroupStart, void) {
  return edge([] {
    group_of_this_thread().begin();
    return success();
  });
}

STEPGATE_NCCL_API(ncclResult_t, ncclGroupEnd, void) {
  return edge([] { return group_of_this_thread().end(); });
}

// As in NCCL: without a struct to fill in it is ncclGroupEnd.
STEPGATE_NCCL_API(ncclResult_t, ncclGroupSimulateEnd, ncclSimInfo_t* simInfo) {
  return edge([&] {
    if (simInfo == nullptr) return group_of_this_thread().end();
    Group& group = group_of_this_thread();
    if (group.outermost()) group.poison(answer_simulation(simInfo));
    return group.simulate_end();
  });
}

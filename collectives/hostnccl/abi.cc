// NCCL's C ABI: adapters only. Each function enters edge(), which lets nothing be thrown across the
// boundary, keeps the sentence for ncclGetLastError and hands out the code.
//
// Threads: as NCCL's; see library.h, group.h and communicator.h for what stands behind each call.
// Streams do not exist on host memory: any value, NULL included, is accepted and ignored.
#pragma GCC visibility push(default)
#include "collectives/nccl_abi/nccl_abi.h"
#pragma GCC visibility pop

#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "collectives/hostnccl/library.h"
#include "collectives/hostnccl/strings.h"

// Like NCCL: a weak public name, so that a preloaded tool can take its place, and a strong twin that
// the tool calls.
#define STEPGATE_NCCL_API(result, name, ...)                                                   \
  extern "C" __attribute__((visibility("default"), alias(#name))) result p##name(__VA_ARGS__); \
  extern "C" __attribute__((visibility("default"), weak)) result name(__VA_ARGS__)

namespace stepgate::hostnccl {
namespace {

// NCCL 2.28.9, the release whose names and rules are followed.
constexpr int kVersion = 22809;

template <typename Body>
ncclResult_t edge(Body body) noexcept {
  try {
    const Outcome outcome = body();
    if (!outcome.ok()) set_last_error_of_this_thread(outcome.message.c_str());
    return outcome.code;
  } catch (const std::bad_alloc&) {
    set_last_error_of_this_thread("out of memory");
    return ncclSystemError;
  } catch (const std::exception& error) {
    set_last_error_of_this_thread(error.what());
    return ncclInternalError;
  } catch (...) {
    set_last_error_of_this_thread("unknown exception");
    return ncclInternalError;
  }
}

Outcome require(const void* pointer, const char* name) {
  return pointer != nullptr ? success() : invalid_argument(std::string(name) + " is NULL");
}

template <typename Use>
Outcome with_comm(ncclComm_t handle, Use use) {
  std::shared_ptr<Communicator> comm;
  if (Outcome o = Library::of_this_process().find(handle, &comm); !o.ok()) return o;
  return use(comm);
}

Outcome outside_group(const char* function) {
  if (!group_of_this_thread().open()) return success();
  return invalid_usage(std::string(function) + " inside a group is not offered: call it outside");
}

Outcome submit(ncclComm_t handle, const Request& request) {
  return with_comm(handle, [&](const std::shared_ptr<Communicator>& comm) {
    if (Outcome o = check(request, comm->rank(), comm->size()); !o.ok()) return o;
    if (Outcome o = comm->usable(); !o.ok()) return o;
    return group_of_this_thread().submit({comm, request});
  });
}

// Without loading the value as its enumeration: C callers may pass any number.
template <typename Enumeration>
int number(const Enumeration& value) noexcept {
  static_assert(sizeof value == sizeof(int));
  int result = 0;
  std::memcpy(&result, &value, sizeof result);
  return result;
}

ncclResult_t collective(ncclComm_t handle, const Request& request) noexcept {
  return edge([&] {
    Outcome outcome = submit(handle, request);
    if (!outcome.ok()) group_of_this_thread().poison(outcome);
    return outcome;
  });
}

Outcome close(ncclComm_t handle, bool by_abort) {
  return with_comm(handle, [&](const std::shared_ptr<Communicator>& comm) {
    if (by_abort) comm->abort();
    Outcome outcome = comm->destroy();
    Library::of_this_process().retire(handle);
    return outcome;
  });
}

}  // namespace
}  // namespace stepgate::hostnccl

using namespace stepgate::hostnccl;  // NOLINT(google-build-using-namespace): nothing but adapters below

STEPGATE_NCCL_API(ncclResult_t, ncclGetVersion, int* version) {
  return edge([&] {
    if (Outcome o = require(version, "version"); !o.ok()) return o;
    *version = kVersion;
    return success();
  });
}

STEPGATE_NCCL_API(ncclResult_t, ncclGetUniqueId, ncclUniqueId* uniqueId) {
  return edge([&] {
    if (Outcome o = require(uniqueId, "uniqueId"); !o.ok()) return o;
    return Library::of_this_process().unique_id(uniqueId);
  });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommInitRank, ncclComm_t* comm, int nranks, ncclUniqueId commId,
                  int rank) {
  return edge([&] {
    if (Outcome o = require(comm, "comm"); !o.ok()) return o;
    *comm = nullptr;
    if (Outcome o = outside_group("ncclCommInitRank"); !o.ok()) return o;
    return Library::of_this_process().create(comm, nranks, commId, rank);
  });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t comm) {
  return edge([&] {
    if (Outcome o = outside_group("ncclCommFinalize"); !o.ok()) return o;
    return with_comm(comm, [](const auto& found) { return found->finalize(); });
  });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommDestroy, ncclComm_t comm) {
  return edge([&] { return close(comm, false); });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommAbort, ncclComm_t comm) {
  return edge([&] { return close(comm, true); });
}

STEPGATE_NCCL_API(const char*, ncclGetErrorString, ncclResult_t result) {
  return describe(result);
}

STEPGATE_NCCL_API(const char*, ncclGetLastError, ncclComm_t) {
  return last_error_of_this_thread();
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* asyncError) {
  return edge([&] {
    if (Outcome o = require(asyncError, "asyncError"); !o.ok()) return o;
    return with_comm(comm, [&](const auto& found) {
      const Outcome state = found->status();
      if (!state.ok()) set_last_error_of_this_thread(state.message.c_str());
      *asyncError = state.code;
      return success();
    });
  });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommCount, const ncclComm_t comm, int* count) {
  return edge([&] {
    if (Outcome o = require(count, "count"); !o.ok()) return o;
    return with_comm(comm, [&](const auto& found) {
      *count = found->size();
      return success();
    });
  });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int* rank) {
  return edge([&] {
    if (Outcome o = require(rank, "rank"); !o.ok()) return o;
    return with_comm(comm, [&](const auto& found) {
      *rank = found->rank();
      return success();
    });
  });
}

// Host memory has one device, number 0 on every rank.
STEPGATE_NCCL_API(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int* device) {
  return edge([&] {
    if (Outcome o = require(device, "device"); !o.ok()) return o;
    return with_comm(comm, [&](const auto&) {
      *device = 0;
      return success();
    });
  });
}

STEPGATE_NCCL_API(ncclResult_t, ncclAllReduce, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
  return collective(comm,
                    {Collective::kAllReduce, sendbuff, recvbuff, count, number(datatype), number(op), 0});
}

STEPGATE_NCCL_API(ncclResult_t, ncclReduceScatter, const void* sendbuff, void* recvbuff, size_t recvcount,
                  ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
  return collective(
      comm, {Collective::kReduceScatter, sendbuff, recvbuff, recvcount, number(datatype), number(op), 0});
}

STEPGATE_NCCL_API(ncclResult_t, ncclAllGather, const void* sendbuff, void* recvbuff, size_t sendcount,
                  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t) {
  return collective(comm,
                    {Collective::kAllGather, sendbuff, recvbuff, sendcount, number(datatype), ncclSum, 0});
}

STEPGATE_NCCL_API(ncclResult_t, ncclBroadcast, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t) {
  return collective(comm,
                    {Collective::kBroadcast, sendbuff, recvbuff, count, number(datatype), ncclSum, root});
}

STEPGATE_NCCL_API(ncclResult_t, ncclBcast, void* buff, size_t count, ncclDataType_t datatype, int root,
                  ncclComm_t comm, cudaStream_t) {
  return collective(comm, {Collective::kBroadcast, buff, buff, count, number(datatype), ncclSum, root});
}

STEPGATE_NCCL_API(ncclResult_t, ncclReduce, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t) {
  return collective(comm,
                    {Collective::kReduce, sendbuff, recvbuff, count, number(datatype), number(op), root});
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

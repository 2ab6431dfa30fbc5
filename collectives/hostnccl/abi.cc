// NCCL's C ABI: adapters only, those about the library and its communicators.
//
// Threads: as NCCL's; see library.h and communicator.h for what stands behind each call.
#include "collectives/hostnccl/comm_config.h"
#include "collectives/hostnccl/edge.h"
#include "collectives/hostnccl/strings.h"

namespace stepgate::hostnccl {
namespace {

// NCCL 2.28.9, the release whose names and rules are followed.
constexpr int kVersion = 22809;

Outcome close(ncclComm_t handle, bool by_abort) {
  return with_comm(handle, [&](const std::shared_ptr<Communicator>& comm) {
    if (by_abort) comm->abort();
    Outcome outcome = comm->destroy();
    Library::of_this_process().retire(handle);
    Library::of_this_process().bury(comm->take_staging());
    return outcome;
  });
}

// Where calls do not block, another thread waits for the others.
Outcome finalize(const std::shared_ptr<Communicator>& comm) {
  if (comm->blocking()) return comm->finalize();
  if (Outcome o = comm->ready(); !o.ok()) return o;
  const auto job = std::make_shared<Job>();
  comm->attach(job);
  Outcome o = job->start([comm] {
    if (Outcome done = comm->finalize(); !done.ok()) comm->break_with(done);
  });
  return o.ok() ? Outcome{ncclInProgress, {}} : o;
}

Outcome init_rank(const char* function, ncclComm_t* comm, int size, const ncclUniqueId& id, int rank,
                  const ncclConfig_t* config) {
  if (Outcome o = require(comm, "comm"); !o.ok()) return o;
  *comm = nullptr;
  if (Outcome o = outside_group(function); !o.ok()) return o;
  bool blocking = true;
  if (Outcome o = read_comm_config(config, &blocking); !o.ok()) return o;
  return Library::of_this_process().create(comm, size, id, rank, blocking);
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
  return edge([&] { return init_rank("ncclCommInitRank", comm, nranks, commId, rank, nullptr); });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommInitRankConfig, ncclComm_t* comm, int nranks, ncclUniqueId commId,
                  int rank, ncclConfig_t* config) {
  return edge([&] { return init_rank("ncclCommInitRankConfig", comm, nranks, commId, rank, config); });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t comm) {
  return edge([&] {
    if (Outcome o = outside_group("ncclCommFinalize"); !o.ok()) return o;
    return with_comm(comm, finalize);
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

// Without a device there is one memory, number 0 on every rank.
STEPGATE_NCCL_API(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int* device) {
  return edge([&] {
    if (Outcome o = require(device, "device"); !o.ok()) return o;
    return with_comm(comm, [&](const auto& found) {
      *device = found->device_ordinal();
      return success();
    });
  });
}

// NCCL's C ABI: adapters only, those that ask about the library and its communicators.
//
// Threads: as NCCL's; see library.h and communicator.h for what stands behind each call.
#include "collectives/hostnccl/edge.h"
#include "collectives/hostnccl/strings.h"

namespace stepgate::hostnccl {
namespace {

// NCCL 2.28.9, the release whose names and rules are followed.
constexpr int kVersion = 22809;

template <typename Ask>
ncclResult_t ask(ncclComm_t comm, int* answer, const char* name, Ask question) noexcept {
  return edge([&] {
    return with_comm(comm, [&](const std::shared_ptr<Communicator>& found) {
      if (Outcome o = require(answer, name); !o.ok()) return o;
      if (Outcome o = found->answers(); !o.ok()) return o;
      *answer = question(*found);
      return success();
    });
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
  return ask(comm, count, "count", [](const Communicator& c) { return c.size(); });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int* rank) {
  return ask(comm, rank, "rank", [](const Communicator& c) { return c.rank(); });
}

// Without a device there is one memory, number 0 on every rank.
STEPGATE_NCCL_API(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int* device) {
  return ask(comm, device, "device", [](const Communicator& c) { return c.device_ordinal(); });
}

// Deprecated in NCCL, where it rereads its debug settings; there are none here.
STEPGATE_NCCL_API(void, ncclResetDebugInit, void) {}

// NCCL's C ABI: adapters only, memory, registrations, and the device API, which has nothing to stand on here.
//
// Threads: any; see host_memory.h and registrations.h.
#include "collectives/hostnccl/edge.h"

// NCCL passes it by value.
struct ncclTeam {
  int nRanks;
  int rank;
  int stride;
};

namespace stepgate::hostnccl {
namespace {

Outcome add_registration(ncclComm_t comm, const void* buffer, std::size_t bytes, void** handle) {
  return with_comm(comm, [&](const std::shared_ptr<Communicator>& found) {
    if (Outcome o = require(handle, "handle"); !o.ok()) return o;
    *handle = found->registrations().add(buffer, bytes);
    return success();
  });
}

Outcome remove_registration(ncclComm_t comm, const void* handle) {
  return with_comm(comm, [&](const auto& found) { return found->registrations().remove(handle); });
}

ncclResult_t not_offered(const char* function) noexcept {
  return edge([&] {
    return invalid_usage(std::string(function) + " is not offered on host memory: no kernel could use it");
  });
}

}  // namespace
}  // namespace stepgate::hostnccl

using namespace stepgate::hostnccl;  // NOLINT(google-build-using-namespace): nothing but adapters below

STEPGATE_NCCL_API(ncclResult_t, ncclMemAlloc, void** ptr, size_t size) {
  return edge([&] { return Library::of_this_process().allocate(ptr, size); });
}

STEPGATE_NCCL_API(ncclResult_t, ncclMemFree, void* ptr) {
  return edge([&] { return Library::of_this_process().free(ptr); });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommRegister, const ncclComm_t comm, void* buff, size_t size,
                  void** handle) {
  return edge([&] { return add_registration(comm, buff, size, handle); });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommDeregister, const ncclComm_t comm, void* handle) {
  return edge([&] { return remove_registration(comm, handle); });
}

// As NCCL does where symmetric memory is not supported: the window is the registration.
STEPGATE_NCCL_API(ncclResult_t, ncclCommWindowRegister, ncclComm_t comm, void* buff, size_t size,
                  ncclWindow_t* win, int) {
  return edge([&] {
    if (buff == nullptr || size == 0) return success();
    void* handle = nullptr;
    if (Outcome o = require(win, "win"); !o.ok()) return o;
    if (Outcome o = add_registration(comm, buff, size, &handle); !o.ok()) return o;
    *win = static_cast<ncclWindow_t>(handle);
    return success();
  });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommWindowDeregister, ncclComm_t comm, ncclWindow_t win) {
  return edge([&] { return win == nullptr ? success() : remove_registration(comm, win); });
}

STEPGATE_NCCL_API(ncclResult_t, ncclDevCommCreate, ncclComm_t, const void*, void*) {
  return not_offered("ncclDevCommCreate");
}

STEPGATE_NCCL_API(ncclResult_t, ncclDevCommDestroy, ncclComm_t, const void*) {
  return not_offered("ncclDevCommDestroy");
}

STEPGATE_NCCL_API(ncclResult_t, ncclLsaBarrierCreateRequirement, ncclTeam, int, void*, void*) {
  return not_offered("ncclLsaBarrierCreateRequirement");
}

STEPGATE_NCCL_API(ncclResult_t, ncclGinBarrierCreateRequirement, ncclComm_t, ncclTeam, int, void*, void*) {
  return not_offered("ncclGinBarrierCreateRequirement");
}

STEPGATE_NCCL_API(ncclResult_t, ncclLLA2ACreateRequirement, int, int, void*, void*) {
  return not_offered("ncclLLA2ACreateRequirement");
}

// The edge of NCCL's C ABI: each exported function enters edge(), which lets nothing be thrown across the
// boundary, keeps the sentence for ncclGetLastError and hands out the code.
//
//   STEPGATE_NCCL_API(ncclResult_t, ncclCommCount, const ncclComm_t comm, int* count) {
//     return edge([&] { return with_comm(comm, ...); });
//   }
//
// For abi.cc and abi_collectives.cc, which include it first. Threads: any. Order, lock, ownership: those of
// library.h.
#pragma once

#pragma GCC visibility push(default)
#include "collectives/nccl_abi/nccl_abi.h"
#pragma GCC visibility pop

#include <cstring>
#include <string>

#include "collectives/hostnccl/guarded.h"
#include "collectives/hostnccl/library.h"

// Like NCCL: a weak public name, so that a preloaded tool can take its place, and a strong twin that
// the tool calls.
#define STEPGATE_NCCL_API(result, name, ...)                                                   \
  extern "C" __attribute__((visibility("default"), alias(#name))) result p##name(__VA_ARGS__); \
  extern "C" __attribute__((visibility("default"), weak)) result name(__VA_ARGS__)

namespace stepgate::hostnccl {

template <typename Body>
ncclResult_t edge(const Body& body) noexcept {
  const Outcome outcome = guarded(body);
  if (!outcome.message.empty()) set_last_error_of_this_thread(outcome.message.c_str());
  return outcome.code;
}

// Without loading the value as its enumeration: C callers may pass any number.
template <typename Enumeration>
int number(const Enumeration& value) noexcept {
  static_assert(sizeof value == sizeof(int));
  int result = 0;
  std::memcpy(&result, &value, sizeof result);
  return result;
}

inline Outcome require(const void* pointer, const char* name) {
  return pointer != nullptr ? success() : invalid_argument(std::string(name) + " is NULL");
}

template <typename Use>
Outcome with_comm(ncclComm_t handle, Use use) {
  std::shared_ptr<Communicator> comm;
  if (Outcome o = Library::of_this_process().find(handle, &comm); !o.ok()) return o;
  return use(comm);
}

}  // namespace stepgate::hostnccl

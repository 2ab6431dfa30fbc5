// Work that may throw, as an outcome: what lies behind NCCL's C ABI, in the caller's thread or another one,
// meets a full memory with a code and never with an exception.
//
//   Outcome o = guarded([&] { return comm->finalize(); });
//
// Thread: any; no order, no lock, owns nothing.
#pragma once

#include <exception>
#include <new>

#include "collectives/hostnccl/outcome.h"

namespace stepgate::hostnccl {

// The code alone where there is no memory for the words.
inline Outcome described(ncclResult_t code, const char* words) noexcept {
  try {
    return {code, words};
  } catch (const std::bad_alloc&) {
    return {code, {}};
  }
}

template <typename Body>
Outcome guarded(const Body& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return described(ncclSystemError, "out of memory");
  } catch (const std::exception& error) {
    return described(ncclInternalError, error.what());
  } catch (...) {
    return described(ncclInternalError, "unknown exception");
  }
}

}  // namespace stepgate::hostnccl

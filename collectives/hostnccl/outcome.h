// What a call of hostnccl came to: NCCL's code and, unless it is ncclSuccess, a sentence for
// ncclGetLastError that names the thing, the value and what is allowed.
//
//   if (Outcome o = check(request, rank, size); !o.ok()) return o;
//
// A plain value: any thread, no order, no lock, owned by whoever holds it.
#pragma once

#include <string>
#include <utility>

#include "collectives/nccl_abi/nccl_abi.h"

namespace stepgate::hostnccl {

struct [[nodiscard]] Outcome {
  ncclResult_t code = ncclSuccess;
  std::string message;

  bool ok() const noexcept { return code == ncclSuccess; }
};

inline Outcome success() {
  return {};
}
inline Outcome invalid_argument(std::string message) {
  return {ncclInvalidArgument, std::move(message)};
}
inline Outcome invalid_usage(std::string message) {
  return {ncclInvalidUsage, std::move(message)};
}

}  // namespace stepgate::hostnccl

#include "collectives/hostnccl/red_ops.h"

#include <string>

namespace stepgate::hostnccl {

void RedOps::create(int number, const PreMul& premul, int type) {
  const std::lock_guard lock(mutex_);
  made_[number] = {premul, type};
}

Outcome RedOps::destroy(int number) {
  const std::lock_guard lock(mutex_);
  if (made_.erase(number) != 0) return success();
  return invalid_argument("ncclRedOpDestroy: operator " + std::to_string(number) +
                          " is unknown to this communicator: destroyed already, or made on another");
}

// Without elements NCCL drops the call before it compares the types.
Outcome RedOps::resolve(Request* request) const {
  if (!reduces(request->kind) || request->op < ncclNumOps) return success();
  const std::lock_guard lock(mutex_);
  const auto found = made_.find(request->op);
  if (found == made_.end()) {
    return invalid_argument(
        std::string(name_of(request->kind)) + ": op " + std::to_string(request->op) +
        " is unknown to this communicator; allowed: 0 to 4 (sum, prod, max, min, avg) and "
        "what ncclRedOpCreatePreMulSum has made on it");
  }
  if (request->count != 0 && found->second.type != request->type) {
    return invalid_argument(std::string(name_of(request->kind)) + ": datatype " +
                            std::to_string(request->type) + " with an operator that was made for datatype " +
                            std::to_string(found->second.type) + "; allowed: that one");
  }
  request->premul = found->second.premul;
  request->op = ncclSum;
  return success();
}

}  // namespace stepgate::hostnccl

#include "collectives/hostnccl/group.h"

#include <utility>

namespace stepgate::hostnccl {

Outcome Group::submit(Call call) {
  if (!open()) return fly({std::move(call)});
  queue_.push_back(std::move(call));
  return success();
}

void Group::poison(const Outcome& outcome) {
  if (open() && error_.ok()) error_ = outcome;
}

Outcome Group::end() {
  if (!open()) return invalid_usage("ncclGroupEnd without ncclGroupStart in this thread");
  if (--depth_ > 0) return success();
  const std::vector<Call> calls = std::exchange(queue_, {});
  const Outcome error = std::exchange(error_, {});
  return error.ok() ? fly(calls) : error;
}

}  // namespace stepgate::hostnccl

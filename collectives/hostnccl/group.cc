#include "collectives/hostnccl/group.h"

#include <utility>

#include "collectives/hostnccl/launch.h"

namespace stepgate::hostnccl {

Outcome Group::submit(Call call) {
  if (!open()) return launch({std::move(call)});
  if (!queue_.empty() && queue_.front().comm->blocking() != call.comm->blocking()) {
    return invalid_argument("blocking and non-blocking communicators are not allowed in the same group");
  }
  queue_.push_back(std::move(call));
  return success();
}

void Group::poison(const Outcome& outcome) {
  if (open() && error_.ok()) error_ = outcome;
}

bool Group::close(Outcome* outcome, std::vector<Call>* calls) {
  if (!open()) {
    *outcome = invalid_usage("ncclGroupEnd without ncclGroupStart in this thread");
    return false;
  }
  if (--depth_ > 0) return false;
  *calls = std::exchange(queue_, {});
  *outcome = std::exchange(error_, {});
  return outcome->ok();
}

Outcome Group::end() {
  Outcome outcome;
  std::vector<Call> calls;
  return close(&outcome, &calls) ? launch(std::move(calls)) : outcome;
}

Outcome Group::simulate_end() {
  Outcome outcome;
  std::vector<Call> calls;
  (void)close(&outcome, &calls);
  return outcome;
}

}  // namespace stepgate::hostnccl

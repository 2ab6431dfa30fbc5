#include "collectives/hostnccl/group.h"

#include <utility>

#include "collectives/hostnccl/guarded.h"
#include "collectives/hostnccl/launch.h"

namespace stepgate::hostnccl {

Outcome Group::join(bool blocking) {
  if (queue_.blocking.value_or(blocking) != blocking) {
    return invalid_argument("blocking and non-blocking communicators are not allowed in the same group");
  }
  queue_.blocking = blocking;
  return success();
}

Outcome Group::submit(Call call) {
  if (!open()) return launch_one(std::move(call));
  if (Outcome o = join(call.comm->blocking()); !o.ok()) return o;
  queue_.calls.push_back(std::move(call));
  return success();
}

Outcome Group::manage(Task task, bool ends_communicator) {
  if (!open()) return run_now(task);
  if (ends_communicator) {
    queue_.ends = true;
  } else if (Outcome o = join(task.blocking); !o.ok()) {
    if (task.forget) task.forget();
    return o;
  }
  Outcome o = guarded([&] {
    queue_.tasks.push_back(std::move(task));  // where it throws the task is as it was
    return success();
  });
  if (!o.ok() && task.forget) task.forget();
  return o;
}

void Group::poison(const Outcome& outcome) noexcept {
  if (open() && error_.ok()) error_ = described(outcome.code, outcome.message.c_str());
}

bool Group::close(Outcome* outcome, Batch* batch) {
  if (!open()) {
    *outcome = invalid_usage("ncclGroupEnd without ncclGroupStart in this thread");
    return false;
  }
  if (--depth_ > 0) return false;
  *batch = std::exchange(queue_, {});
  *outcome = std::exchange(error_, {});
  if (outcome->ok()) return true;
  forget_all(batch->tasks);
  return false;
}

Outcome Group::end() {
  Outcome outcome;
  Batch batch;
  if (!close(&outcome, &batch)) return outcome;
  return launch_group(batch.tasks, std::move(batch.calls), batch.blocks());
}

Outcome Group::simulate_end() {
  Outcome outcome;
  Batch batch;
  if (!close(&outcome, &batch)) return outcome;
  return launch_group(batch.tasks, {}, batch.blocks());
}

}  // namespace stepgate::hostnccl

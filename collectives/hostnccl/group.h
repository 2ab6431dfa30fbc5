// ncclGroupStart to ncclGroupEnd of one thread: the depth, what is queued and the first error.
//
//   group.begin();
//   group.submit(call);           // queued
//   group.manage(task);           // queued
//   Outcome o = group.end();      // the outermost one runs the tasks, then launches the calls
//
// Thread: one object per thread, used by that thread alone; no lock. Owns what is queued and with it keeps
// the communicators alive. Whatever end() returns, after the outermost one the group is empty and its
// depth is 0.
#pragma once

#include <optional>
#include <vector>

#include "collectives/hostnccl/flight.h"
#include "collectives/hostnccl/outcome.h"
#include "collectives/hostnccl/task.h"

namespace stepgate::hostnccl {

class Group {
 public:
  void begin() noexcept { ++depth_; }
  bool open() const noexcept { return depth_ > 0; }

  // Outside a group: launches the call. Inside: queues it; ncclInvalidArgument where blocking and other
  // communicators meet.
  Outcome submit(Call call);

  // Work on a communicator that is no collective; the same two ways. A communicator's end blocks, whatever
  // its communicator, and meets no refusal: what else is in the group may block or not.
  Outcome manage(Task task, bool ends_communicator = false);

  // A call that was refused inside a group: the outermost end() starts nothing and returns this.
  void poison(const Outcome& outcome) noexcept;

  Outcome end();
  // Like end(), but the outermost one forgets the collectives instead of starting them. As in NCCL the rest
  // is done: communicators come about and end.
  Outcome simulate_end();
  bool outermost() const noexcept { return depth_ == 1; }

 private:
  struct Batch {
    std::vector<Task> tasks;
    std::vector<Call> calls;
    std::optional<bool> blocking;  // none: nothing has been queued that says so
    bool ends = false;             // a communicator's end is queued

    // Of the work on communicators. Collectives behind it block or not, as their own communicators do.
    bool blocks() const { return ends || blocking.value_or(true); }
  };

  // False: not yet the outermost one, or an error, which is in *outcome.
  bool close(Outcome* outcome, Batch* batch);
  Outcome join(bool blocking);

  int depth_ = 0;
  Batch queue_;
  Outcome error_;
};

}  // namespace stepgate::hostnccl

// Work on a communicator that is no collective: connecting, splitting, finalizing, closing. Outside a group
// it runs at once, or in a thread of its own where the communicator's calls do not block; inside one it waits
// for the outermost end.
//
//   return manage({comm, comm->blocking(), [=] { return comm->finalize(); }, nullptr});
//
// Thread: manage in any; at a group's end the tasks of different communicators run at the same time, each in
// a thread that takes no signals, those of one communicator in the order of the calls. No lock of its own.
// Each task runs or is forgotten, whatever fails: behind a failure the rest of its communicator's is
// forgotten, and where a thread or memory is missing all of them.
// Ownership: a task holds its communicator alive until it has run or was forgotten.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "collectives/hostnccl/communicator.h"
#include "collectives/hostnccl/flight.h"
#include "collectives/hostnccl/outcome.h"

namespace stepgate::hostnccl {

struct Task {
  std::shared_ptr<Communicator> comm;
  bool blocking = true;
  std::function<Outcome()> run;       // in an exclusive thread; may throw
  std::function<void()> forget = {};  // instead of run, where it does not come to that; may be empty
};

// Outside a group: runs it. Where it does not block, ncclInProgress; a failure then breaks task.comm.
Outcome run_now(const Task& task);

// Waits for all; the first failure in the order of the tasks.
Outcome run_all(const std::vector<Task>& tasks) noexcept;
void forget_all(const std::vector<Task>& tasks) noexcept;

// What a group came to: first the tasks, then, if all of them succeeded, the calls.
Outcome launch_group(const std::vector<Task>& tasks, std::vector<Call> calls, bool blocking);

}  // namespace stepgate::hostnccl

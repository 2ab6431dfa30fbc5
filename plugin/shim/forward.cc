#include "plugin/shim/forward.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>

namespace stepgate::shim {
namespace {

Outcome outcome_of(ncclResult_t result) {
  if (result == ncclSuccess) return Outcome::kLaunched;
  return result == ncclInProgress ? Outcome::kPending : Outcome::kDropped;
}

// More than any job puts into one group (96 bytes each).
constexpr std::size_t kLargestGroup = 65536;

// Whether this hook has not been named yet. There are fewer hooks than places.
bool first_time(const char* function) noexcept {
  static std::array<std::atomic<const char*>, 64> told{};
  for (std::atomic<const char*>& place : told) {
    const char* there = nullptr;
    if (place.compare_exchange_strong(there, function)) return true;
    if (there == function) return false;
  }
  return false;
}

void end_group(GroupState& group, Outcome outcome) noexcept {
  const CoreTable* core = listening_core();
  if (core != nullptr) {
    for (const Reduction& op : group.queue.all()) core->after(&op, outcome);
  }
  group.queue.clear();
  group.overflown = false;
}

// Of a reduction whose send buffer nobody has read: that it filled its memory is all that can be said.
void tell_unread(const CoreTable& core, Reduction op) noexcept {
  op.kind = OpKind::kMovement;
  core.after(&op, Outcome::kPending);
}

// A group without an end that a hook saw: it ended past them, and what comes now is in none. Nobody can tell
// when it is launched, so hooks no longer read it; a gate reads it at the step's end. What was kept may be
// old, and its communicator gone.
void overflow(const CoreTable& core, GroupState& group) noexcept {
  group.overflown = true;
  for (const Reduction& op : group.queue.all()) {
    if (find_comm(op.comm).copy != nullptr) tell_unread(core, op);
  }
  group.queue.clear();
  note_miss(survey::Cause::kUnhooked, "ncclGroupEnd",
            "a group holds more than 65536 calls: its ncclGroupStart went through the hooks, and its "
            "ncclGroupEnd was looked up on the library's handle (dlsym) or bound past them");
}

// Only within a group: a creation that does not block may fill its place at any time, and that place need
// not be there any more when somebody looks.
void await_comm(const AwaitedComm& comm) noexcept {
  GroupState& group = group_state();
  if (group.depth == 0 || group.awaited.count == kMostAwaited) return;
  group.awaited.comms[group.awaited.count++] = comm;
}

void name_awaited(GroupState& group, ncclResult_t result) noexcept {
  for (std::size_t i = 0; i < group.awaited.count && result == ncclSuccess; ++i) {
    const AwaitedComm& made = group.awaited.comms[i];
    if (*made.where == nullptr) continue;
    if (find_comm(*made.where).copy == nullptr) {
      take_expected_comm();
      remember_comm(*made.where, made.copy);
    }
    set_comm_name(*made.where, made.name);
  }
  group.awaited = {};
}

}  // namespace

const NcclCopy* copy_for(ncclComm_t comm, const void* caller) noexcept {
  const CommEntry entry = find_comm(comm);
  if (entry.copy != nullptr) return entry.copy;
  const NcclCopy* copy = resolve_copy(caller);
  if (copy != nullptr && comm != nullptr && !inside_nccl()) {
    take_expected_comm();
    remember_comm(comm, copy);
  }
  return copy;
}

int comm_world(ncclComm_t comm) noexcept {
  const CommEntry entry = find_comm(comm);
  if (entry.copy == nullptr || entry.world != 0) return entry.world;
  int world = 0;
  if (entry.copy->functions.CommCount == nullptr) return 0;
  const InsideNccl guard;
  if (entry.copy->functions.CommCount(comm, &world) != ncclSuccess) return 0;
  set_comm_world(comm, world);
  return world;
}

const CoreTable* listening_core() noexcept {
  const CoreTable* core = loaded_core();
  return core != nullptr && core->active() ? core : nullptr;
}

ncclResult_t missing(const char* function) noexcept {
  if (first_time(function)) {
    char line[200] = "stepgate error: the NCCL in this process has no ";
    std::strncat(line, function, sizeof line - std::strlen(line) - 40);
    std::strcat(line, "; ncclInvalidUsage is returned\n");
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line, std::strlen(line));
  }
  return ncclInvalidUsage;
}

void comm_created(ncclComm_t* comm, const NcclCopy* copy, ncclResult_t result, const char* name,
                  int device) noexcept {
  if (comm == nullptr || (result != ncclSuccess && result != ncclInProgress)) return;
  const CoreTable* core = load_core();
  // A creation that does not block, or stands in a group, may fill *comm later: then the first use makes it
  // known. (A split that leaves this rank out never does.)
  if (*comm == nullptr) {
    if (result == ncclInProgress || group_state().depth > 0) expect_comm();
    if (name != nullptr) await_comm({comm, copy, name});
    return;
  }
  remember_comm(*comm, copy);
  set_comm_name(*comm, name);
  if (core != nullptr && core->active()) core->comm_created(*comm, device);
}

void comm_retiring(ncclComm_t comm) noexcept {
  if (comm == nullptr) return;
  if (const CoreTable* core = loaded_core()) core->comm_retired(comm);
  forget_comm(comm);
}

void before_reduction(Reduction& op) noexcept {
  const CoreTable* core = listening_core();
  if (core == nullptr) return;
  op.world = comm_world(op.comm);
  op.comm_name = find_comm(op.comm).name;
  // What the group's end launches is read right before that: until then the job's own work on the stream may
  // still fill the buffer, and a group that is only simulated launches nothing.
  const GroupState& group = group_state();
  if (group.depth == 0 || group.overflown) core->before(&op);
}

void after_reduction(const Reduction& op, ncclResult_t result) noexcept {
  const CoreTable* core = listening_core();
  if (core == nullptr) return;
  GroupState& group = group_state();
  const Outcome outcome = outcome_of(result);
  if (group.depth == 0 || outcome == Outcome::kDropped) return core->after(&op, outcome);
  if (group.overflown) return core->after(&op, Outcome::kPending);
  if (group.queue.size() == kLargestGroup) {
    overflow(*core, group);
    return tell_unread(*core, op);
  }
  if (outcome == Outcome::kLaunched && group.queue.push(op)) return;
  if (op.kind != OpKind::kMovement) core->before(&op);
  core->after(&op, Outcome::kPending);
}

void comm_asked(ncclComm_t comm, const CommEntry& entry, const NcclCopy& copy, const void* caller) noexcept {
  if (comm == nullptr || (entry.hooked && entry.copy != nullptr)) return;
  if (!inside_copy(copy, caller)) {
    if (entry.copy != nullptr) return;
    take_expected_comm();
    remember_comm(comm, &copy);
  } else if (entry.hooked) {
    return;  // it has ended; a thread of NCCL is still at it
  } else if (entry.copy == nullptr && take_expected_comm()) {
    remember_comm(comm, &copy);  // NCCL's own thread knows it before the job does
  } else if (entry.copy != nullptr) {
    count_miss(entry.cause);
  } else {
    remember_unhooked(comm, &copy, note_unhooked("NCCL itself"));
  }
}

void comm_settled(ncclComm_t comm) noexcept {
  if (const CoreTable* core = listening_core()) core->settled(comm);
}

void moved(ncclComm_t comm, void* data, std::size_t count, ncclDataType_t type, cudaStream_t stream,
           ncclResult_t result) noexcept {
  if (data == nullptr) return;
  after_reduction({OpKind::kMovement, type, ncclSum, 0, nullptr, data, count, 0, comm, stream}, result);
}

void group_started(ncclResult_t result) noexcept {
  if (result == ncclSuccess) ++group_state().depth;
}

void group_ending() noexcept {
  const GroupState& group = group_state();
  const CoreTable* core = group.depth == 1 ? listening_core() : nullptr;
  if (core == nullptr) return;
  for (const Reduction& op : group.queue.all()) {
    if (op.kind != OpKind::kMovement) core->before(&op);
  }
}

void group_ended(ncclResult_t result) noexcept {
  GroupState& group = group_state();
  if (group.depth > 0) --group.depth;
  // A failed inner end still leaves the group open in NCCL; only the outermost one launches.
  if (group.depth != 0) return;
  name_awaited(group, result);
  end_group(group, outcome_of(result));
}

void group_simulated() noexcept {
  GroupState& group = group_state();
  if (group.depth > 0) --group.depth;
  // Nothing was launched and nothing will be: nobody is to wait for it, and the ranges keep what they had.
  if (group.depth != 0) return;
  group.queue.clear();
  group.overflown = false;
  group.awaited = {};
}

}  // namespace stepgate::shim

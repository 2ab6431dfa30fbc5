// The re-entrancy guard and the group depth of the calling thread.
//
// NCCL calls some of its own exports through the dynamic linker, so a hook may be entered from inside
// the call that it forwards: such calls pass straight through. Thread: each its own; no lock.
#pragma once

#include <vector>

#include "plugin/core/core_entry.h"

namespace stepgate::shim {

// Around every call into NCCL, ours or the job's. Nestable.
void enter_nccl() noexcept;
void leave_nccl() noexcept;
bool inside_nccl() noexcept;

class InsideNccl {
 public:
  InsideNccl() noexcept { enter_nccl(); }
  ~InsideNccl() { leave_nccl(); }
  InsideNccl(const InsideNccl&) = delete;
  InsideNccl& operator=(const InsideNccl&) = delete;
};

// Reductions of the open group, in call order: nothing of a group is launched before its outermost
// ncclGroupEnd.
struct GroupState {
  int depth = 0;
  std::vector<Reduction> queue;
};
GroupState& group_state() noexcept;

}  // namespace stepgate::shim

// The re-entrancy guard and the group depth of the calling thread.
//
// NCCL calls some of its own exports through the dynamic linker, so a hook may be entered from inside
// the call that it forwards: such calls pass straight through. Thread: each its own; no lock. Nothing here
// has a destructor that ends it: handlers at exit reduce as well, when a thread's objects are gone.
#pragma once

#include <cstddef>
#include <span>

#include "plugin/core/core_entry.h"
#include "plugin/shim/nccl_functions.h"

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

// A list that may be used, and be left as it is, at any time. The memory is kept from group to group; the
// thread's end takes it away, and what comes later gives its own back with clear().
class ReductionQueue {
 public:
  bool push(const Reduction& op) noexcept;  // false: no memory
  void clear() noexcept;
  void end_thread() noexcept;
  std::size_t size() const noexcept { return size_; }
  std::span<const Reduction> all() const noexcept { return {data_, size_}; }

 private:
  bool grow() noexcept;
  void release() noexcept;

  Reduction* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t room_ = 0;
  bool thread_ended_ = false;
};

// A communicator with a name that a group makes: its handle is there when the group has ended.
struct AwaitedComm {
  ncclComm_t* where;
  const NcclCopy* copy;
  const char* name;
};
inline constexpr std::size_t kMostAwaited =
    16;  // as many devices as a thread may drive; further ones have none
struct AwaitedComms {
  AwaitedComm comms[kMostAwaited];
  std::size_t count = 0;
};

// Reductions of the open group, in call order: nothing of a group is launched before its outermost
// ncclGroupEnd.
struct GroupState {
  int depth = 0;
  // The queue was full: what the group still gets is no longer kept.
  bool overflown = false;
  ReductionQueue queue;
  AwaitedComms awaited;
};
GroupState& group_state() noexcept;

}  // namespace stepgate::shim

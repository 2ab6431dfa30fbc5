#include "plugin/shim/guard.h"

#include <algorithm>
#include <cstdlib>
#include <type_traits>

namespace stepgate::shim {
namespace {

static_assert(std::is_trivially_copyable_v<Reduction>, "realloc moves it");
static_assert(std::is_trivially_destructible_v<GroupState>, "it is used after the thread's destructors");

constexpr std::size_t kFirstRoom = 16;

thread_local int nccl_depth = 0;
thread_local GroupState group{};

struct AtThreadEnd {
  ~AtThreadEnd() { group.queue.end_thread(); }
  void arm() const noexcept {}  // the first use of a thread registers its destructor
};
thread_local AtThreadEnd at_thread_end;

}  // namespace

void enter_nccl() noexcept {
  ++nccl_depth;
}
void leave_nccl() noexcept {
  --nccl_depth;
}
bool inside_nccl() noexcept {
  return nccl_depth != 0;
}

GroupState& group_state() noexcept {
  return group;
}

bool ReductionQueue::push(const Reduction& op) noexcept {
  if (size_ == room_ && !grow()) return false;
  data_[size_++] = op;
  return true;
}

bool ReductionQueue::grow() noexcept {
  if (!thread_ended_) at_thread_end.arm();
  const std::size_t room = std::max(kFirstRoom, 2 * room_);
  void* const data = std::realloc(data_, room * sizeof(Reduction));
  if (data == nullptr) return false;
  data_ = static_cast<Reduction*>(data);
  room_ = room;
  return true;
}

void ReductionQueue::clear() noexcept {
  size_ = 0;
  if (thread_ended_) release();
}

// A group that is open yet may be ended by a handler: what it holds stays.
void ReductionQueue::end_thread() noexcept {
  thread_ended_ = true;
  if (size_ == 0) release();
}

void ReductionQueue::release() noexcept {
  std::free(data_);
  data_ = nullptr;
  room_ = 0;
}

}  // namespace stepgate::shim

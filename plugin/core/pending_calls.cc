#include "plugin/core/pending_calls.h"

#include <algorithm>

namespace stepgate::gate {

void PendingCalls::hold(const Reduction& op) {
  const std::lock_guard lock(mutex_);
  list_.push_back({op, std::this_thread::get_id()});
  counted();
}

bool PendingCalls::mine(ncclComm_t comm) const noexcept {
  if (none()) return false;
  const auto me = std::this_thread::get_id();
  const std::lock_guard lock(mutex_);
  return std::any_of(list_.begin(), list_.end(),
                     [&](const Call& c) { return c.op.comm == comm && c.issuer == me; });
}

template <class Wanted>
bool PendingCalls::take_first(Reduction* op, Wanted wanted) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(list_.begin(), list_.end(), wanted);
  if (found == list_.end()) return false;
  *op = found->op;
  list_.erase(found);
  counted();
  return true;
}

bool PendingCalls::take_mine(ncclComm_t comm, Reduction* op) noexcept {
  const auto me = std::this_thread::get_id();
  return take_first(op, [&](const Call& c) { return c.op.comm == comm && c.issuer == me; });
}

bool PendingCalls::take(ncclComm_t comm, Reduction* op) noexcept {
  return take_first(op, [&](const Call& c) { return c.op.comm == comm; });
}

ncclComm_t PendingCalls::first() const noexcept {
  const std::lock_guard lock(mutex_);
  return list_.empty() ? nullptr : list_.front().op.comm;
}

std::size_t PendingCalls::forget(ncclComm_t comm) noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t gone = std::erase_if(list_, [&](const Call& c) { return c.op.comm == comm; });
  counted();
  return gone;
}

void PendingCalls::clear() noexcept {
  const std::lock_guard lock(mutex_);
  list_.clear();
  counted();
}

}  // namespace stepgate::gate

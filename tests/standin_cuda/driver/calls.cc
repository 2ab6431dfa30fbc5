#include "tests/standin_cuda/driver/calls.h"

#include <algorithm>
#include <cstdio>

namespace stepgate::standin {
namespace {

constexpr std::size_t kListed = 1u << 20;  // calls kept; more are counted as faults only

bool& waited() {
  thread_local bool flag = false;
  return flag;
}

bool names(const std::string& wanted, const std::string& name) {
  if (wanted.empty()) return true;
  return wanted == kAnyWork ? name.rfind("cuCtx", 0) != 0 : wanted == name;
}

}  // namespace

Calls& calls() {
  static Calls all;
  return all;
}

void note_wait() noexcept {
  waited() = true;
}

bool take_wait() noexcept {
  return std::exchange(waited(), false);
}

Result Calls::fault_locked(const char* name) {
  if (fault_.left == 0 || !names(fault_.name, name)) return Result::kSuccess;
  if (fault_.skip != 0) {
    --fault_.skip;
    return Result::kSuccess;
  }
  --fault_.left;
  ++hit_;
  return fault_.result;
}

Result Calls::enter(const char* name, std::size_t* slot) {
  const std::lock_guard lock(mutex_);
  *slot = list_.size();
  if (list_.size() < kListed) {
    CallRecord record{};
    std::snprintf(record.name, sizeof record.name, "%s", name);
    list_.push_back(record);
  }
  return fault_locked(name);
}

void Calls::leave(std::size_t slot, Result result, bool waited_in_it) {
  const std::lock_guard lock(mutex_);
  if (slot >= list_.size()) return;
  list_[slot].result = static_cast<int>(result);
  list_[slot].waited = waited_in_it;
}

void Calls::fail(const char* name, std::uint64_t index, Result result, std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  fault_ = {name != nullptr ? name : "", index, result, count};
  hit_ = 0;
}

void Calls::heal() {
  const std::lock_guard lock(mutex_);
  fault_ = {};
}

std::uint64_t Calls::faults_hit() const {
  const std::lock_guard lock(mutex_);
  return hit_;
}

std::size_t Calls::read(CallRecord* out, std::size_t capacity) const {
  const std::lock_guard lock(mutex_);
  std::copy_n(list_.begin(), std::min(capacity, list_.size()), out);
  return list_.size();
}

void Calls::forget() {
  const std::lock_guard lock(mutex_);
  list_.clear();
}

}  // namespace stepgate::standin

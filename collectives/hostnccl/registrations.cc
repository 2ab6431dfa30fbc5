#include "collectives/hostnccl/registrations.h"

#include <algorithm>

namespace stepgate::hostnccl {
namespace {

constexpr std::uintptr_t kPage = 4096;

}  // namespace

void* Registrations::add(const void* buffer, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(buffer);
  const std::uintptr_t begin = address & ~(kPage - 1);
  const std::uintptr_t end = (address + bytes + kPage - 1) & ~(kPage - 1);
  const std::lock_guard lock(mutex_);
  auto slot = std::find_if(slots_.begin(), slots_.end(),
                           [&](const auto& s) { return s.second.begin <= begin && s.second.end >= end; });
  if (slot == slots_.end()) slot = slots_.emplace(++last_, Slot{begin, end, 0}).first;
  ++slot->second.references;
  return reinterpret_cast<void*>(slot->first);
}

Outcome Registrations::remove(const void* handle) {
  if (handle == nullptr) return success();
  const std::lock_guard lock(mutex_);
  const auto slot = slots_.find(reinterpret_cast<std::uintptr_t>(handle));
  if (slot == slots_.end()) {
    return invalid_usage("the handle is none of this communicator's registrations, or was deregistered");
  }
  if (--slot->second.references == 0) slots_.erase(slot);
  return success();
}

std::size_t Registrations::held() const {
  const std::lock_guard lock(mutex_);
  return slots_.size();
}

}  // namespace stepgate::hostnccl

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
  const auto around = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    return slot.references > 0 && slot.begin <= begin && slot.end >= end;
  });
  if (around != slots_.end()) {
    ++around->references;
    return &*around;
  }
  slots_.push_back({begin, end, 1});
  return &slots_.back();
}

Outcome Registrations::remove(const void* handle) {
  if (handle == nullptr) return success();
  const std::lock_guard lock(mutex_);
  const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                 [&](const Slot& s) { return &s == handle && s.references > 0; });
  if (slot == slots_.end()) {
    return invalid_usage("the handle is none of this communicator's registrations, or was deregistered");
  }
  --slot->references;
  return success();
}

std::size_t Registrations::held() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.references > 0; }));
}

}  // namespace stepgate::hostnccl

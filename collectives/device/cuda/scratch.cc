#include "collectives/device/cuda/scratch.h"

#include <algorithm>
#include <new>
#include <utility>

#include "collectives/device/cuda/error_text.h"

namespace stepgate::device::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

ScratchNeed larger(const ScratchNeed& a, const ScratchNeed& b) {
  return {std::max(a.groups, b.groups), std::max(a.bundles, b.bundles), std::max(a.tickets, b.tickets),
          std::max(a.segments, b.segments)};
}

}  // namespace

bool ScratchTable::allocate(const ScratchNeed& need, Scratch* out) noexcept {
  const std::size_t groups = aligned(need.groups * sizeof(GradStats));
  const std::size_t bundles = aligned(need.bundles * sizeof(GradStats));
  const std::size_t segments = aligned(need.segments * sizeof(GradStats));
  const std::size_t tickets = aligned(need.tickets * sizeof(std::uint32_t));
  auto* memory =
      static_cast<unsigned char*>(memory_.allocate(groups + bundles + segments + tickets, Memory::kDevice));
  if (memory == nullptr) return false;
  out->room = need;
  out->memory = memory;
  out->groups = reinterpret_cast<GradStats*>(memory);
  out->bundles = reinterpret_cast<GradStats*>(memory + groups);
  out->segments = reinterpret_cast<GradStats*>(memory + groups + bundles);
  out->tickets = reinterpret_cast<std::uint32_t*>(memory + groups + bundles + segments);
  return true;
}

bool ScratchTable::fill_pool() noexcept {
  return std::all_of(pool_.begin(), pool_.end(),
                     [&](Pooled& p) { return allocate(kPooledRoom, &p.scratch); });
}

Code ScratchTable::prepare(const void* key, const ScratchNeed& need) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(key);
  try {
    Scratch fresh;
    ScratchNeed wanted = need;
    {
      const std::lock_guard lock(mutex_);
      const std::vector<Scratch>& have = prepared_[at];
      if (!have.empty() && need.fits(have.back().room)) return Code::kOk;
      if (!have.empty()) wanted = larger(need, have.back().room);
      prepared_[at].reserve(have.size() + 1);
    }
    if (!allocate(wanted, &fresh)) return Code::kOutOfMemory;
    const std::lock_guard lock(mutex_);
    prepared_[at].push_back(fresh);
    return Code::kOk;
  } catch (const std::bad_alloc&) {
    return fail(Code::kOutOfMemory, "prepare: no host memory for the table of scans");
  }
}

bool ScratchTable::find_prepared(const void* key, Scratch* out) noexcept {
  const std::lock_guard lock(mutex_);
  const auto it = prepared_.find(reinterpret_cast<std::uintptr_t>(key));
  if (it == prepared_.end() || it->second.empty()) return false;
  *out = it->second.back();
  return true;
}

bool ScratchTable::find(const void* key, Stream s, Scratch* out, bool* prepared) noexcept {
  *prepared = find_prepared(key, out);
  if (*prepared) return true;
  const std::lock_guard lock(mutex_);
  for (Pooled& p : pool_) {
    if (p.taken && p.stream != s) continue;
    p.taken = true;
    p.stream = s;
    *out = p.scratch;
    return true;
  }
  return false;
}

void ScratchTable::forget(const void* start, std::size_t bytes) noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(start);
  std::map<std::uintptr_t, std::vector<Scratch>> gone;
  {
    const std::lock_guard lock(mutex_);
    auto it = prepared_.lower_bound(from);
    while (it != prepared_.end() && it->first - from < bytes) gone.insert(prepared_.extract(it++));
  }
  for (const auto& [key, pieces] : gone) {
    for (const Scratch& s : pieces) memory_.release(s.memory, Memory::kDevice);
  }
}

}  // namespace stepgate::device::cuda

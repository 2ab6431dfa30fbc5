#include "plugin/core/claims.h"

#include <algorithm>
#include <utility>

namespace stepgate::gate {

std::vector<Claims::Interval> Claims::memory_of(const RangeSpec& spec) {
  std::vector<Interval> all;
  for (const device::Segment& s : spec.segments) {
    const auto begin = reinterpret_cast<std::uintptr_t>(s.data);
    if (s.count != 0) all.push_back({begin, begin + s.count * element_size(spec.type)});
  }
  std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  return all;
}

// Segments of one range may overlap one another, but a job that declares them does not: a merge finds all.
bool Claims::overlap(const std::vector<Interval>& a, const std::vector<Interval>& b) noexcept {
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    if (x->begin < y->end && y->begin < x->end) return true;
    x->end <= y->begin ? ++x : ++y;
  }
  return false;
}

Claims::Ticket Claims::take(const Owner& owner, const RangeSpec& spec, std::string* why) {
  Claim claim;
  claim.owner = owner;
  claim.memory = memory_of(spec);
  const std::lock_guard lock(mutex_);
  for (const Claim& other : claims_) {
    if (other.owner.gate == owner.gate || !(other.owner.multiplies || owner.multiplies)) continue;
    if (!overlap(other.memory, claim.memory)) continue;
    *why = "range '" + spec.name + "': gate '" + other.owner.name +
           "' has declared this memory, and one of the two multiplies it (unscale = in_hook); allowed: one "
           "gate over such memory";
    return 0;
  }
  claim.ticket = ++last_;
  claims_.push_back(std::move(claim));
  return last_;
}

void Claims::bind(Ticket ticket, std::uint32_t id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto mine =
      std::find_if(claims_.begin(), claims_.end(), [&](const Claim& c) { return c.ticket == ticket; });
  if (mine != claims_.end()) mine->id = id;
}

void Claims::drop(Ticket ticket) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(claims_, [&](const Claim& c) { return c.ticket == ticket; });
}

void Claims::drop_all_of(const void* gate) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(claims_, [&](const Claim& c) { return c.owner.gate == gate; });
}

std::vector<Claims::Ticket> Claims::held(const void* gate, std::optional<std::uint32_t> id) {
  std::vector<Ticket> tickets;
  const std::lock_guard lock(mutex_);
  for (const Claim& c : claims_) {
    if (c.owner.gate == gate && c.id && (!id || c.id == id)) tickets.push_back(c.ticket);
  }
  return tickets;
}

}  // namespace stepgate::gate

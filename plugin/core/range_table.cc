#include "plugin/core/range_table.h"

#include <algorithm>
#include <utility>

namespace stepgate::gate {
namespace {

std::uintptr_t begin_of(const device::Segment& s) {
  return reinterpret_cast<std::uintptr_t>(s.data);
}

std::uintptr_t end_of(const device::Segment& s, ElementType t) {
  return begin_of(s) + s.count * element_size(t);
}

bool overlaps(const Range& have, const RangeSpec& want, const device::Segment& s) {
  for (const device::Segment& h : have.spec.segments) {
    if (h.count == 0) continue;
    if (begin_of(h) < end_of(s, want.type) && begin_of(s) < end_of(h, have.spec.type)) return true;
  }
  return false;
}

}  // namespace

bool RangeTable::declare(RangeSpec spec, std::uint32_t* id, std::string* error) {
  if (reject(spec, error) != nullptr) return false;
  const std::uint32_t slot = choose_slot(spec.name);
  if (slot == capacity_) {
    *error = "range '" + spec.name + "': " + std::to_string(capacity_) +
             " ranges are declared already, which is the most a gate holds; retire some";
    return false;
  }
  if (slot == ranges_.size()) ranges_.emplace_back();
  ranges_[slot] = Range{};
  ranges_[slot].spec = std::move(spec);
  ranges_[slot].declared = true;
  rebuild();
  *id = slot;
  return true;
}

// Says what is wrong, or nullptr. Only result ranges may not overlap: an input may lie anywhere.
const char* RangeTable::reject(const RangeSpec& spec, std::string* error) {
  if (!spec.result) return nullptr;
  for (const device::Segment& s : spec.segments) {
    if (s.count == 0) continue;
    for (const Range& have : ranges_) {
      if (!have.declared || !have.spec.result || !overlaps(have, spec, s)) continue;
      *error =
          "range '" + spec.name + "' overlaps result range '" + have.spec.name + "'; retire that one first";
      return error->c_str();
    }
  }
  return nullptr;
}

std::uint32_t RangeTable::choose_slot(const std::string& name) const {
  std::uint32_t free_slot = capacity_;
  for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
    if (ranges_[i].declared || ranges_[i].graph) continue;
    if (ranges_[i].spec.name == name) return i;
    if (free_slot == capacity_) free_slot = i;
  }
  if (ranges_.size() < capacity_) return static_cast<std::uint32_t>(ranges_.size());
  return free_slot;
}

bool RangeTable::retire(std::uint32_t id) {
  Range* r = find(id);
  if (r == nullptr) return false;
  r->declared = false;
  rebuild();
  return true;
}

void RangeTable::retire_all() {
  for (Range& r : ranges_) r.declared = false;
  rebuild();
}

Range* RangeTable::find(std::uint32_t id) {
  return id < ranges_.size() && ranges_[id].declared ? &ranges_[id] : nullptr;
}

void RangeTable::rebuild() {
  intervals_.clear();
  longest_ = 0;
  for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
    if (!ranges_[i].declared) continue;
    for (const device::Segment& s : ranges_[i].spec.segments) {
      if (s.count == 0) continue;
      const Interval v{begin_of(s), end_of(s, ranges_[i].spec.type), i};
      longest_ = std::max(longest_, v.end - v.begin);
      intervals_.push_back(v);
    }
  }
  std::sort(intervals_.begin(), intervals_.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  touched_.assign(ranges_.size(), 0);
}

void RangeTable::touching(const void* data, std::uint64_t bytes, bool result, std::vector<Hit>* hits) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t end = begin + bytes;
  if (bytes == 0 || intervals_.empty()) return;
  // No interval is longer than longest_, so none that begins before this can reach `begin`.
  const std::uintptr_t from = begin > longest_ ? begin - longest_ : 0;
  auto it = std::lower_bound(intervals_.begin(), intervals_.end(), from,
                             [](const Interval& v, std::uintptr_t x) { return v.begin < x; });
  const std::size_t first = hits->size();
  for (; it != intervals_.end() && it->begin < end; ++it) {
    if (it->end <= begin || ranges_[it->id].spec.result != result) continue;
    if (touched_[it->id] == 0) hits->push_back({it->id, false});
    // A segment that sticks out counts for the touch but can never complete the range.
    const bool whole = it->begin >= begin && it->end <= end;
    touched_[it->id] += whole ? 2 : 1;
  }
  for (std::size_t i = first; i < hits->size(); ++i) {
    Hit& h = (*hits)[i];
    std::uint32_t live = 0;
    for (const device::Segment& s : ranges_[h.id].spec.segments) live += s.count != 0;
    h.inside = touched_[h.id] == 2 * live;
    touched_[h.id] = 0;
  }
  std::sort(hits->begin() + static_cast<std::ptrdiff_t>(first), hits->end(),
            [](const Hit& a, const Hit& b) { return a.id < b.id; });
}

void RangeTable::begin_step() {
  for (Range& r : ranges_) {
    r.covered = false;
    r.attributed = false;
    r.reduced = false;
    r.touched = false;
    r.unscaled = false;
    r.scanned = false;
  }
}

}  // namespace stepgate::gate

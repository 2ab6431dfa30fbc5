// RangeTable: which memory is a gradient, by declaration. Pure bookkeeping over addresses; it never
// reads the memory it speaks of.
//
// Thread: none of its own; the owning Gate's mutex guards it. Ids are slot numbers: a retired range's
// id is handed out again, first to a range of the same name (a bucket that was rebuilt); never where
// a graph may still write its statistics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/core/element_type.h"
#include "collectives/device/device.h"

namespace stepgate::gate {

// A checked declaration.
struct RangeSpec {
  std::string name;
  std::vector<device::Segment> segments;
  std::vector<std::string> parameters;  // one name per segment
  ElementType type = ElementType::kFp32;
  ElementType compute = ElementType::kFp16;
  bool result = true;    // what the optimizer reads; otherwise only names parameters
  bool is_final = true;  // values at the reduction are final
  bool counted = true;   // this rank counts it for the norm
  std::uint32_t set = 0;
  double factor = 1;
};

struct Range {
  RangeSpec spec;
  bool declared = false;  // false: retired, the slot is free
  bool absent = false;
  bool covered = false;     // final statistics of the open step are in its slot
  bool attributed = false;  // its local scan of the open step is in its slot
  bool reduced = false;     // a reduction of the open step wrote it
  bool touched = false;     // a call of the open step wrote it: what a replay scanned is not the last word
  bool scanned = false;     // in the open step, last on scanned_on
  device::Stream scanned_on = nullptr;
  bool unscaled = false;    // its elements have been multiplied in the open step (unscale = in_hook)
  bool graph = false;       // a captured graph holds scans into its slot, and may run them at any time
  std::uint64_t since = 0;  // the first step it may be part of
};

class RangeTable {
 public:
  explicit RangeTable(std::uint32_t capacity) : capacity_(capacity) {}

  // False with *error for an empty or overlapping declaration, or a full table; nothing changes then.
  bool declare(RangeSpec spec, std::uint32_t* id, std::string* error);
  bool retire(std::uint32_t id);
  void retire_all();

  // nullptr for an id that is not declared.
  Range* find(std::uint32_t id);
  std::uint32_t slots() const { return static_cast<std::uint32_t>(ranges_.size()); }
  Range& slot(std::uint32_t id) { return ranges_[id]; }

  // Declared ranges of the given role with a byte in [data, data + bytes). `inside`: every segment
  // lies there. Appended to *hits, in id order. Linear in the number of segments touched.
  struct Hit {
    std::uint32_t id;
    bool inside;
  };
  void touching(const void* data, std::uint64_t bytes, bool result, std::vector<Hit>* hits);

  // Clears what belongs to one step.
  void begin_step();

 private:
  struct Interval {
    std::uintptr_t begin, end;
    std::uint32_t id;
  };
  std::uint32_t choose_slot(const std::string& name) const;
  const char* reject(const RangeSpec& spec, std::string* error);
  void rebuild();

  std::uint32_t capacity_;
  std::vector<Range> ranges_;
  std::vector<Interval> intervals_;     // of all declared segments, by begin
  std::uintptr_t longest_ = 0;          // bytes of the longest one
  std::vector<std::uint32_t> touched_;  // scratch of touching(): segments hit, per slot
};

}  // namespace stepgate::gate

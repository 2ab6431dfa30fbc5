// A declared range that is one segment of floats, for programs that use the C API.
//
// Thread: any. Ownership: points at the segment and the name, which the caller keeps until it is declared.
#pragma once

#include "stepgate/stepgate.h"

namespace stepgate::test {

inline stepgate_range whole_range(const char* name, const stepgate_segment& segment, bool counted = true) {
  stepgate_range range{};
  range.size = sizeof range;
  range.name = name;
  range.segments = &segment;
  range.segment_count = 1;
  range.compute_type = -1;
  range.flags = counted ? 0 : STEPGATE_RANGE_NOT_COUNTED;
  return range;
}

}  // namespace stepgate::test

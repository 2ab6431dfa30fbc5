// The flight recorder: the last steps of one rank of one gate, as a file to look at after the fact. One JSON
// object per line (JSON Lines), each with its kind in "record": first one "gate", then "step" by step oldest
// first, the newest "range" figures, and the "offender"s that the gate remembers. A number that is infinite
// or NaN is null. Fields are added, not renamed.
//
// Thread: any; pure but for write_flight, which creates a file. Ownership: plain data, the caller's.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collectives/core/records.h"
#include "metrics/record_source.h"

namespace stepgate::metrics {

// One parameter of this rank that held an inf or a NaN before the reduction.
struct FlightOffender {
  std::uint64_t step = 0;
  std::uint64_t inf = 0, nan = 0;
  std::string range, parameter;
};

struct Flight {
  Identity who;
  ScalerParams params;
  Counters counters;
  bool enforcing = false;
  std::uint64_t generation = 0;
  double written_seconds = 0;  // Unix time
  std::uint64_t lost = 0;      // records that were overwritten while they were read
  std::vector<StepRecord> steps;
  std::vector<std::pair<std::string, RangeRecord>> ranges;  // with the range's name
  std::vector<FlightOffender> offenders;
};

std::string flight_lines(const Flight& flight);

// The file appears whole or not at all, in the place of what was there. False: *error names it.
bool write_flight(const Flight& flight, const std::string& path, std::string* error);

}  // namespace stepgate::metrics

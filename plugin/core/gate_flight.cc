// Gate: the flight recorder, from what has become visible of its steps. Waits for nothing.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "metrics/flight.h"
#include "plugin/core/gate.h"
#include "plugin/core/last_error.h"

namespace stepgate::gate {

stepgate_status Gate::dump(const std::string& path) {
  metrics::Flight flight;
  {
    const std::lock_guard lock(mutex_);
    harvest_locked();
    flight.generation = mirror_.get()->generation;
  }
  flight.who = identity();
  flight.params = scaler_params();
  flight.enforcing = enforcing();
  flight.written_seconds =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  flight.steps.resize(kRingRecords);
  flight.steps.resize(read_steps(0, flight.steps.data(), flight.steps.size(), &flight.lost));
  // What the ring no longer holds is not lost: it keeps so many.
  if (!flight.steps.empty()) flight.lost -= std::min(flight.lost, flight.steps.front().sequence - 1);
  flight.counters = counters();
  std::vector<RangeRecord> ranges;
  read_ranges(&ranges);
  for (const RangeRecord& r : ranges) flight.ranges.emplace_back(range_name(r.range), r);
  {
    const std::lock_guard lock(records_mutex_);
    for (const stepgate_offender& o : offenders_) {
      flight.offenders.push_back({o.step, o.inf, o.nan, o.range, o.parameter});
    }
  }
  std::string error;
  if (metrics::write_flight(flight, path, &error)) return STEPGATE_OK;
  return fail(STEPGATE_FAILED, "stepgate_dump: " + error);
}

}  // namespace stepgate::gate

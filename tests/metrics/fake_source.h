// FakeSource: a RecordSource made of what a test puts in; and short ways to write records.
//
// Threads: the setters from the test, the interface from the publisher's thread; one lock. It counts
// the threads that called it, so that a test can hold the publisher to its promise.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "metrics/record_source.h"

namespace stepgate::metrics::test {

class FakeSource : public RecordSource {
 public:
  FakeSource();

  Identity identity() const override;
  ScalerParams scaler_params() const override;
  bool enforcing() const override;
  bool ever_enforced() const override;
  std::size_t read_steps(std::uint64_t after, StepRecord* out, std::size_t capacity,
                         std::uint64_t* lost) override;
  std::string range_name(std::uint32_t range) const override;
  void read_ranges(std::vector<RangeRecord>* out) override;
  Counters counters() const override;
  void read_observations(std::vector<Observation>* out) override;

  void set_identity(const Identity& who);
  void set_params(const ScalerParams& params);
  void set_enforcing(bool now);  // true: ever since, too
  void set_ring(std::size_t records);
  void push(StepRecord record);  // gets the next sequence
  void name_range(std::uint32_t range, const std::string& name);
  void put(const RangeRecord& record);  // replaces that of the same range and phase
  void show(const Observation& o);      // replaces that of the same name and phase
  void change(const std::function<void(Counters&)>& how);
  void throw_from_counters(bool on);
  std::size_t calling_threads() const;
  std::uint64_t calls() const;

 private:
  std::unique_lock<std::mutex> enter() const;

  mutable std::mutex mutex_;
  mutable std::set<std::thread::id> threads_;
  mutable std::uint64_t calls_ = 0;
  Identity who_;
  ScalerParams params_;
  bool enforcing_ = false;
  bool ever_ = false;
  bool throwing_ = false;
  std::size_t ring_ = kRingRecords;
  std::vector<StepRecord> steps_;
  std::map<std::uint32_t, std::string> names_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, RangeRecord> ranges_;
  std::vector<Observation> observations_;
  Counters counters_;
};

// An applied step: norm 1, scale unchanged.
StepRecord applied(std::uint64_t step, double norm = 1, double scale = 65536);
// A skipped one, scale halved where it is an overflow.
StepRecord skipped(std::uint64_t step, Reason reason, std::int32_t offender = kOffenderUnknown,
                   double scale = 65536);
// A range's figures: elements, of them zeros, subnormals.
RangeRecord range(std::uint64_t step, std::uint32_t id, ScanPhase phase, std::uint64_t elements,
                  std::uint64_t zeros = 0, std::uint64_t subnormals = 0, double abs_max = 1);
RangeRecord with_nonfinite(RangeRecord r, std::uint64_t inf, std::uint64_t nan);

}  // namespace stepgate::metrics::test

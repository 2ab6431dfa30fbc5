// SourceFeed: reads one RecordSource and moves the series of its gate. Knows nothing of pages,
// threads or files: poll() is one look at the source.
//
// Thread: the publisher's, under the registry's page lock. Ownership: the publisher owns the feed;
// the source belongs to the caller and outlives it; the GateSeries may be shared between feeds.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "metrics/detectors.h"
#include "metrics/gate_series.h"
#include "metrics/nonfinite_ledger.h"
#include "metrics/observation_feed.h"
#include "metrics/record_source.h"

namespace stepgate::metrics {

class SourceFeed {
 public:
  // now: Unix seconds, for records of a writer without a clock.
  SourceFeed(RecordSource& source, GateSeries& series, const AnomalyThresholds& thresholds,
             std::function<double()> now);

  // Reads all that is new. Findings are appended to *found (may be null).
  void poll(std::vector<Anomaly>* found);
  // The last look: what is still unclaimed is settled, the gate no longer enforces.
  void finish(std::vector<Anomaly>* found);

  RecordSource* source() const { return &source_; }

 private:
  void poll_identity();
  void poll_counters();
  void poll_steps(std::vector<Anomaly>& anomalies);
  void poll_ranges(std::vector<Anomaly>& anomalies, bool last);
  void take_step(const StepRecord& record, std::vector<Anomaly>& anomalies);
  void take_decision(const StepRecord& record);
  void take_scale(const StepRecord& record, bool first_of_step);
  void take_fresh_ranges(const std::vector<RangeRecord>& fresh);
  void forget_steps();
  bool is_new(const RangeRecord& record, bool last);
  void publish_observed_norm(const std::vector<RangeRecord>& ranges);
  void run(std::vector<Anomaly>* found, bool last);

  RecordSource& source_;
  GateSeries& series_;
  const std::function<double()> now_;
  const AnomalyThresholds thresholds_;
  const ScalerParams params_;
  Detectors detectors_;
  NonfiniteLedger ledger_;
  ObservationFeed observations_;
  Counters before_;
  Identity shown_;
  std::uint64_t sequence_ = 0;   // last record read
  std::uint64_t last_step_ = 0;  // newest step number read
  std::uint64_t scale_changed_step_ = 0;
  std::vector<StepRecord> steps_;  // read buffers, kept
  std::vector<RangeRecord> ranges_;
  std::unordered_map<std::uint64_t, std::uint64_t> range_step_;  // by range and phase: last one taken
};

}  // namespace stepgate::metrics

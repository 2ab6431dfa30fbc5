// Detectors: each a small state machine that reads records in order and says when something is
// wrong. A finding is reported once when it begins, not again while it lasts.
//
// Thread: one at a time (the publisher's). Order: records of one source by step. They hold no
// pointer and make no call: the tests drive them with tables of records.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "collectives/core/records.h"
#include "collectives/core/scaler.h"
#include "metrics/anomaly.h"

namespace stepgate::metrics {

// overflow (inf) and nan: elements of the reduced gradient, once a step, whether the step's record or
// a range's brings the news first. value: elements.
class NonfiniteDetector {
 public:
  explicit NonfiniteDetector(AnomalyKind kind) : kind_(kind) {}
  void observe(const StepRecord& record, std::vector<Anomaly>& out);
  void observe(const RangeRecord& record, std::vector<Anomaly>& out);

 private:
  void report(std::uint64_t step, std::uint64_t elements, std::int32_t rank, std::uint32_t range,
              std::vector<Anomaly>& out);
  AnomalyKind kind_;
  std::uint64_t last_step_ = 0;
};

// scale_floor: the scale has come down to its minimum (value: the scale), or a whole window of steps
// passed without one that was applied (value: the window).
class ScaleFloorDetector {
 public:
  ScaleFloorDetector(const AnomalyThresholds& t, const ScalerParams& params) : t_(t), params_(params) {}
  void observe(const StepRecord& record, std::vector<Anomaly>& out);

 private:
  AnomalyThresholds t_;
  ScalerParams params_;
  bool on_floor_ = false;
  std::uint64_t first_step_ = 0;  // of the steps since the last applied one; 0 none
  bool starved_ = false;
};

// consecutive_skips: per decision set, more than n skips in a row. value: the run's length.
class ConsecutiveSkipsDetector {
 public:
  explicit ConsecutiveSkipsDetector(const AnomalyThresholds& t) : t_(t) {}
  void observe(const StepRecord& record, std::vector<Anomaly>& out);
  std::uint64_t longest() const;  // of the runs that last

 private:
  AnomalyThresholds t_;
  std::unordered_map<std::uint32_t, std::uint64_t> run_;  // by set
};

// divergence: ranks hold different state or decisions. rank: the odd one, where it could be named.
class DivergenceDetector {
 public:
  void observe(const StepRecord& record, std::vector<Anomaly>& out);

 private:
  std::uint64_t last_step_ = 0;
};

// underflow: a range loses its small elements (value: the share of zeros and subnormals now). Judged
// against the range's own average, so a range that never had a gradient is quiet; a step where every
// range is zero at once is a constant loss and is quiet too. Takes all records that are new.
class UnderflowDetector {
 public:
  explicit UnderflowDetector(const AnomalyThresholds& t) : t_(t) {}
  void observe(std::span<const RangeRecord> fresh, std::vector<Anomaly>& out);

 private:
  struct History {
    double average = 0;
    std::uint32_t seen = 0;
    bool low = false;  // reported; until it recovers
  };
  void judge(const RangeRecord& record, std::vector<Anomaly>& out);

  AnomalyThresholds t_;
  std::unordered_map<std::uint64_t, History> history_;  // by range and phase
};

// norm_spike: the gradient norm of a step lies above k times the median of those before it (value: the
// norm). Per decision set; a step without a norm (skipped, released, not finite) is passed over. Norms of a
// spike are history like others: what stays high becomes the median.
class NormSpikeDetector {
 public:
  explicit NormSpikeDetector(const AnomalyThresholds& t) : t_(t) {}
  void observe(const StepRecord& record, std::vector<Anomaly>& out);

 private:
  struct History {
    std::deque<double> norms;    // the newest window, in order of time
    std::vector<double> sorted;  // the same ones
    bool high = false;           // reported; until it comes down
  };
  bool is_high(const History& h, double norm) const;
  void remember(History& h, double norm) const;

  AnomalyThresholds t_;
  std::unordered_map<std::uint32_t, History> history_;  // by set
};

// scale_thrash: one growth of the scale after the other is lost at once, that is, the scale backs off before
// a tenth of the growth interval is over, or within the overflows that the rule forgives (value: the growths
// lost in a row). Changes by the scaler alone count: what the job sets between two steps is no growth.
class ScaleThrashDetector {
 public:
  ScaleThrashDetector(const AnomalyThresholds& t, const ScalerParams& params);
  void observe(const StepRecord& record, std::vector<Anomaly>& out);

 private:
  AnomalyThresholds t_;
  std::uint64_t at_once_;           // steps
  std::uint64_t changed_step_ = 0;  // of the newest change; several sets tell of it
  std::uint64_t growth_step_ = 0;   // of the growth that may yet be lost; 0 none
  std::uint32_t lost_in_row_ = 0;
};

// All of them, for one source.
class Detectors {
 public:
  Detectors(const AnomalyThresholds& t, const ScalerParams& params)
      : floor_(t, params), skips_(t), underflow_(t), spike_(t), thrash_(t, params) {}
  void observe(const StepRecord& record, std::vector<Anomaly>& out);
  void observe(std::span<const RangeRecord> fresh, std::vector<Anomaly>& out);
  std::uint64_t longest_skip_run() const { return skips_.longest(); }

 private:
  NonfiniteDetector overflow_{AnomalyKind::kOverflow};
  NonfiniteDetector nan_{AnomalyKind::kNan};
  ScaleFloorDetector floor_;
  ConsecutiveSkipsDetector skips_;
  DivergenceDetector divergence_;
  UnderflowDetector underflow_;
  NormSpikeDetector spike_;
  ScaleThrashDetector thrash_;
};

}  // namespace stepgate::metrics

// GateSeries: the fixed series of one gate, as named references into a Series. What can be named in
// advance is created at once (and so exported as 0); the enforce part with the first enforce.
//
// Thread: the publisher's, under the registry's page lock. Ownership: the publisher; the gates above
// the cap share one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "metrics/anomaly.h"
#include "metrics/bucket_table.h"
#include "metrics/record_source.h"
#include "metrics/registry.h"

namespace stepgate::metrics {

// Reasons of a skip as the label has them; index by Reason - 1.
inline constexpr std::array<Reason, 4> kSkipReasons = {Reason::kNan, Reason::kInf, Reason::kVeto,
                                                       Reason::kNorm};

struct EnforceSeries {
  explicit EnforceSeries(Series& s);

  CounterRef& steps;
  CounterRef& applied;
  CounterRef& clipped;
  std::array<CounterRef*, kSkipReasons.size()> skipped;
  GaugeRef& consecutive_skips;
  GaugeRef& last_decision;
  GaugeRef& loss_scale;
  GaugeRef& at_minimum;
  CounterRef& steps_at_minimum;
  CounterRef& scale_up;
  CounterRef& scale_down;
  CounterRef& scale_external;
  GaugeRef& growth_tracker;
  GaugeRef& hysteresis;
  GaugeRef& norm;
  HistogramRef& norm_hist;
  GaugeRef& clip;
  GaugeRef& offending_rank;
  HistogramRef& agreement;
  CounterRef& divergence;
};

class GateSeries {
 public:
  GateSeries(Registry& registry, const Labels& base, std::size_t bucket_cap);
  std::size_t bucket_cap() const { return bucket_cap_; }

  // Shows who publishes; again when a fact became known later.
  void set_identity(const Identity& identity);
  // The enforce part, created by the first call.
  EnforceSeries& enforce();
  bool has_enforce() const { return enforce_ != nullptr; }
  // Observe's norm; absent until there is one.
  GaugeRef& observed_norm();
  bool has_observed_norm() const { return observed_norm_ != nullptr; }
  // The same in the gradient's own size, and the scale by which it is known; absent until the job tells one.
  GaugeRef& unscaled_norm();
  GaugeRef& external_scale();
  bool has_external_scale() const { return external_scale_ != nullptr; }
  Series& series() { return series_; }
  BucketTable& buckets() { return buckets_; }

 private:
  GaugeRef& restarts(const char* by);

  const std::size_t bucket_cap_;
  Series series_;
  BucketTable buckets_;
  std::unique_ptr<EnforceSeries> enforce_;
  GaugeRef* observed_norm_ = nullptr;
  GaugeRef* unscaled_norm_ = nullptr;
  GaugeRef* external_scale_ = nullptr;
  GaugeRef* build_info_ = nullptr;
  GaugeRef* job_info_ = nullptr;

 public:
  GaugeRef& enforcing;
  std::array<CounterRef*, kRefuseReasons> refused;
  std::array<CounterRef*, kReleaseReasons> released;
  std::array<CounterRef*, kAnomalyKinds> anomalies;
  CounterRef& ranges_missing;
  CounterRef& ranges_rescanned;
  std::array<CounterRef*, kMissCauses> hooks_missed;
  std::array<CounterRef*, kReductionOps> scanned;
  std::array<CounterRef*, kReductionOps> passed;
  std::array<CounterRef*, 2> scanned_bytes;
  HistogramRef& scan;
  std::array<CounterRef*, kStages> errors;
  CounterRef& dropped;
};

}  // namespace stepgate::metrics

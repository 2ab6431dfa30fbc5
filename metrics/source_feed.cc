#include "metrics/source_feed.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "metrics/label.h"

namespace stepgate::metrics {
namespace {

constexpr std::size_t kReadAtOnce = 256;
constexpr int kReadsPerPoll = 8;  // two rings full: a poll ends even if the job outruns it
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

double grown(std::uint64_t now, std::uint64_t before) {
  return now > before ? static_cast<double>(now - before) : 0;
}

template <std::size_t N>
void advance(const std::array<CounterRef*, N>& series, const std::array<std::uint64_t, N>& now,
             const std::array<std::uint64_t, N>& before) {
  for (std::size_t i = 0; i < N; ++i) series[i]->add(grown(now[i], before[i]));
}

bool reduced(const RangeRecord& r) {
  return r.phase == static_cast<std::uint32_t>(ScanPhase::kReduced);
}

bool same(const Identity& a, const Identity& b) {
  return a.version == b.version && a.device == b.device && a.nccl_version == b.nccl_version &&
         a.rule == b.rule && a.job_name == b.job_name && a.run_id == b.run_id && a.world == b.world;
}

// A skip without a reason was never decided; the job sees the same as after a veto.
CounterRef& skip_counter(const EnforceSeries& e, Reason reason) {
  for (std::size_t i = 0; i < kSkipReasons.size(); ++i) {
    if (kSkipReasons[i] == reason) return *e.skipped[i];
  }
  return *e.skipped[2];
}
static_assert(kSkipReasons[2] == Reason::kVeto, "skip_counter: the fallback is the veto");

}  // namespace

SourceFeed::SourceFeed(RecordSource& source, GateSeries& series, const AnomalyThresholds& thresholds,
                       std::function<double()> now)
    : source_(source),
      series_(series),
      now_(std::move(now)),
      thresholds_(thresholds),
      params_(source.scaler_params()),
      detectors_(thresholds, params_),
      observations_(series, thresholds),
      shown_(source.identity()),
      steps_(kReadAtOnce) {
  series_.set_identity(shown_);
}

void SourceFeed::poll(std::vector<Anomaly>* found) {
  run(found, false);
}

void SourceFeed::finish(std::vector<Anomaly>* found) {
  run(found, true);
  series_.enforcing.set(0);
}

void SourceFeed::run(std::vector<Anomaly>* found, bool last) {
  std::vector<Anomaly> anomalies;
  poll_identity();
  if (source_.ever_enforced()) series_.enforce();
  series_.enforcing.set(source_.enforcing() ? 1 : 0);
  poll_counters();
  poll_steps(anomalies);  // before the ranges: a range's step must be known to be claimed
  poll_ranges(anomalies, last);
  observations_.poll(source_, anomalies);
  for (const Anomaly& a : anomalies) series_.anomalies[static_cast<std::size_t>(a.kind)]->add(1);
  if (found != nullptr) found->insert(found->end(), anomalies.begin(), anomalies.end());
}

void SourceFeed::poll_identity() {
  Identity now = source_.identity();
  if (same(now, shown_)) return;
  shown_ = std::move(now);
  series_.set_identity(shown_);
}

void SourceFeed::poll_counters() {
  const Counters now = source_.counters();
  advance(series_.scanned, now.reductions_scanned, before_.reductions_scanned);
  advance(series_.passed, now.reductions_passed, before_.reductions_passed);
  advance(series_.scanned_bytes, now.scanned_bytes, before_.scanned_bytes);
  advance(series_.errors, now.plugin_errors, before_.plugin_errors);
  advance(series_.refused, now.enforce_refused, before_.enforce_refused);
  advance(series_.released, now.enforce_released, before_.enforce_released);
  series_.ranges_missing.add(grown(now.ranges_missing, before_.ranges_missing));
  series_.ranges_rescanned.add(grown(now.ranges_rescanned, before_.ranges_rescanned));
  advance(series_.hooks_missed, now.hooks_missed, before_.hooks_missed);
  const std::uint64_t external_before = before_.external_scale_changes;
  before_ = now;
  if (series_.has_enforce()) {
    series_.enforce().scale_external.add(grown(now.external_scale_changes, external_before));
  } else {
    before_.external_scale_changes = external_before;  // counted once there is a place for it
  }
}

void SourceFeed::poll_steps(std::vector<Anomaly>& anomalies) {
  for (int i = 0; i < kReadsPerPoll; ++i) {
    std::uint64_t lost = 0;
    const std::size_t n = source_.read_steps(sequence_, steps_.data(), steps_.size(), &lost);
    series_.dropped.add(static_cast<double>(lost));
    for (std::size_t k = 0; k < n; ++k) take_step(steps_[k], anomalies);
    if (n < steps_.size()) return;
  }
}

void SourceFeed::take_step(const StepRecord& r, std::vector<Anomaly>& anomalies) {
  sequence_ = std::max(sequence_, r.sequence);
  if (r.step < last_step_) forget_steps();
  if (r.scan_seconds > 0) series_.scan.observe(r.scan_seconds);
  detectors_.observe(r, anomalies);
  ledger_.add_step(r);
  const bool first_of_step = r.step != last_step_;
  last_step_ = r.step;
  if (!series_.has_enforce()) return;
  if (first_of_step) series_.enforce().steps.add(1);
  take_decision(r);
  take_scale(r, first_of_step);
}

// Step numbers went back: a restored state or another generation. What is keyed by step starts anew.
void SourceFeed::forget_steps() {
  detectors_ = Detectors(thresholds_, params_);
  range_step_.clear();
  scale_changed_step_ = 0;
}

void SourceFeed::take_decision(const StepRecord& r) {
  EnforceSeries& e = series_.enforce();
  const Decision& d = r.decision;
  if (d.skip != 0) {
    skip_counter(e, d.reason).add(1);
    e.offending_rank.set(d.offender);
    e.norm.set(kNoNumber);
  } else {
    e.applied.add(1);
    if (d.clip < 1) e.clipped.add(1);
    e.norm.set(d.norm);
    e.norm_hist.observe(d.norm);
  }
  e.clip.set(d.skip != 0 ? 1 : d.clip);
  e.consecutive_skips.set(static_cast<double>(detectors_.longest_skip_run()));
  e.last_decision.set(r.timestamp_seconds > 0 ? r.timestamp_seconds : now_());
  if (r.agreement_seconds > 0) e.agreement.observe(r.agreement_seconds);
  if (d.diverged != 0) e.divergence.add(1);
}

void SourceFeed::take_scale(const StepRecord& r, bool first_of_step) {
  EnforceSeries& e = series_.enforce();
  e.loss_scale.set(r.scaler.scale);
  e.at_minimum.set(at_minimum(params_, r.scaler) ? 1 : 0);
  e.growth_tracker.set(static_cast<double>(r.scaler.growth_tracker));
  e.hysteresis.set(static_cast<double>(r.scaler.hysteresis_left));
  ScalerState used;
  used.scale = r.decision.scale;
  if (first_of_step && at_minimum(params_, used)) e.steps_at_minimum.add(1);
  // Of the sets of a step only those published after the update differ; together they are one change.
  if (r.scaler.scale == r.decision.scale || scale_changed_step_ == r.step) return;
  scale_changed_step_ = r.step;
  (r.scaler.scale > r.decision.scale ? e.scale_up : e.scale_down).add(1);
}

bool SourceFeed::is_new(const RangeRecord& r, bool last) {
  if (r.step == 0 || r.phase >= kPhases) return false;
  // Ahead of the step records: its own record comes with the next poll and must be there first.
  if (!last && sequence_ != 0 && r.step > last_step_) return false;
  std::uint64_t& taken = range_step_[std::uint64_t{r.range} * kPhases + r.phase];
  if (r.step <= taken) return false;
  taken = r.step;
  return true;
}

void SourceFeed::poll_ranges(std::vector<Anomaly>& anomalies, bool last) {
  ranges_.clear();
  source_.read_ranges(&ranges_);
  publish_observed_norm(ranges_);
  std::erase_if(ranges_, [&](const RangeRecord& r) { return !is_new(r, last); });
  detectors_.observe(ranges_, anomalies);
  take_fresh_ranges(ranges_);
  const NonfiniteCounts rest = ledger_.close_poll(last);
  if (rest.n != NonfiniteCounts{}.n) series_.buckets().add_nonfinite(kOtherBucket, rest);
}

// Ranges that share a published name (retired ones with their old names, those above the cap) are
// one bucket: their counts are added, the gauges speak of all of them together.
void SourceFeed::take_fresh_ranges(const std::vector<RangeRecord>& fresh) {
  std::map<std::string, GradStats> together;
  for (const RangeRecord& r : fresh) {
    const std::string name = series_.buckets().admit(label_text(source_.range_name(r.range)));
    ledger_.claim(r);
    NonfiniteCounts counts;
    counts.n[r.phase] = {r.stats.inf, r.stats.nan};
    series_.buckets().add_nonfinite(name, counts);
    if (reduced(r)) add_counts(together[name], r.stats);
  }
  for (const auto& [name, stats] : together) series_.buckets().set_gauges(name, stats);
}

// Without decisions there is no unscaled norm: what the newest step's reduced ranges sum up to.
void SourceFeed::publish_observed_norm(const std::vector<RangeRecord>& ranges) {
  if (series_.has_enforce()) {
    if (series_.has_observed_norm()) series_.observed_norm().set(kNoNumber);
    if (series_.has_external_scale()) series_.unscaled_norm().set(kNoNumber);
    return;
  }
  std::uint64_t newest = 0;
  double squares = 0;
  double scale = 0;
  for (const RangeRecord& r : ranges) {
    if (!reduced(r) || r.step < newest || r.step == 0) continue;
    if (r.step > newest) squares = 0;
    newest = r.step;
    scale = r.scale;
    squares += r.stats.inf + r.stats.nan != 0 ? kNoNumber : r.stats.sum_squares;
  }
  if (newest == 0) return;
  series_.observed_norm().set(std::sqrt(squares));
  if (scale == 0 && !series_.has_external_scale()) return;
  // A scale that is no longer told, or that is none, unscales nothing.
  const bool known = scale > 0 && std::isfinite(scale);
  series_.external_scale().set(scale != 0 ? scale : kNoNumber);
  series_.unscaled_norm().set(known ? std::sqrt(squares) / scale : kNoNumber);
}

}  // namespace stepgate::metrics

#include "metrics/detectors.h"

#include <algorithm>
#include <cmath>

namespace stepgate::metrics {

void NonfiniteDetector::observe(const StepRecord& r, std::vector<Anomaly>& out) {
  const std::uint64_t elements = kind_ == AnomalyKind::kNan ? r.sum_nan : r.sum_inf;
  report(r.step, elements, r.decision.offender, kNoRange, out);
}

void NonfiniteDetector::observe(const RangeRecord& r, std::vector<Anomaly>& out) {
  if (r.phase != static_cast<std::uint32_t>(ScanPhase::kReduced)) return;
  const std::uint64_t elements = kind_ == AnomalyKind::kNan ? r.stats.nan : r.stats.inf;
  report(r.step, elements, kOffenderUnknown, r.range, out);
}

void NonfiniteDetector::report(std::uint64_t step, std::uint64_t elements, std::int32_t rank,
                               std::uint32_t range, std::vector<Anomaly>& out) {
  if (elements == 0 || step <= last_step_) return;
  last_step_ = step;
  out.push_back({kind_, step, rank, range, static_cast<double>(elements)});
}

void ScaleFloorDetector::observe(const StepRecord& r, std::vector<Anomaly>& out) {
  const bool now = at_minimum(params_, r.scaler);
  if (now && !on_floor_) {
    out.push_back({AnomalyKind::kScaleFloor, r.step, r.decision.offender, kNoRange, r.scaler.scale});
  }
  on_floor_ = now;
  if (r.decision.skip == 0) {
    first_step_ = 0;
    starved_ = false;
    return;
  }
  if (first_step_ == 0) first_step_ = r.step;
  if (starved_ || r.step - first_step_ + 1 < t_.floor_window) return;
  starved_ = true;
  out.push_back({AnomalyKind::kScaleFloor, r.step, r.decision.offender, kNoRange,
                 static_cast<double>(t_.floor_window)});
}

void ConsecutiveSkipsDetector::observe(const StepRecord& r, std::vector<Anomaly>& out) {
  std::uint64_t& run = run_[r.set];
  run = r.decision.skip != 0 ? run + 1 : 0;
  if (run != std::uint64_t{t_.skips_in_row} + 1) return;
  out.push_back(
      {AnomalyKind::kConsecutiveSkips, r.step, r.decision.offender, kNoRange, static_cast<double>(run)});
}

std::uint64_t ConsecutiveSkipsDetector::longest() const {
  std::uint64_t most = 0;
  for (const auto& [set, run] : run_) most = std::max(most, run);
  return most;
}

void DivergenceDetector::observe(const StepRecord& r, std::vector<Anomaly>& out) {
  if (r.decision.diverged == 0 || r.step <= last_step_) return;
  last_step_ = r.step;
  const std::int32_t odd = r.decision.odd_rank >= 0 ? r.decision.odd_rank : kOffenderUnknown;
  out.push_back({AnomalyKind::kDivergence, r.step, odd, kNoRange, 1});
}

void UnderflowDetector::observe(std::span<const RangeRecord> fresh, std::vector<Anomaly>& out) {
  // Every range zero in one step and phase: the loss does not depend on the weights at all.
  std::unordered_map<std::uint64_t, bool> alive;
  const auto key = [](const RangeRecord& r) { return r.step * 2 + (r.phase & 1u); };
  for (const RangeRecord& r : fresh) {
    if (r.stats.elements != 0) alive[key(r)] |= r.stats.zeros < r.stats.elements;
  }
  for (const RangeRecord& r : fresh) {
    if (r.stats.elements != 0 && alive[key(r)]) judge(r, out);
  }
}

void UnderflowDetector::judge(const RangeRecord& r, std::vector<Anomaly>& out) {
  History& h = history_[std::uint64_t{r.range} * 2 + (r.phase & 1u)];
  const double share =
      static_cast<double>(r.stats.zeros + r.stats.subnormals) / static_cast<double>(r.stats.elements);
  const bool jumped = h.seen >= t_.underflow_history && share >= h.average + t_.underflow_jump;
  const bool low = jumped && r.stats.abs_max <= t_.underflow_abs_max;
  if (low && !h.low) {
    out.push_back({AnomalyKind::kUnderflow, r.step, kOffenderUnknown, r.range, share});
  }
  h.low = low;
  if (low) return;  // the average is that of the healthy steps
  h.average = h.seen == 0 ? share : h.average + t_.underflow_weight * (share - h.average);
  ++h.seen;
}

void NormSpikeDetector::observe(const StepRecord& r, std::vector<Anomaly>& out) {
  const double norm = r.decision.norm;
  if (r.decision.skip != 0 || r.decision.released != 0 || !std::isfinite(norm)) return;
  History& h = history_[r.set];
  const bool high = is_high(h, norm);
  if (high && !h.high) out.push_back({AnomalyKind::kNormSpike, r.step, kOffenderUnknown, kNoRange, norm});
  h.high = high;
  remember(h, norm);
}

bool NormSpikeDetector::is_high(const History& h, double norm) const {
  if (h.sorted.size() < std::min(t_.spike_history, t_.spike_window)) return false;
  const double median = h.sorted[h.sorted.size() / 2];
  // Where most norms are zero there was no gradient, and its first one is no spike.
  return median > 0 && norm > t_.spike_factor * median;
}

void NormSpikeDetector::remember(History& h, double norm) const {
  if (h.norms.size() >= t_.spike_window) {
    h.sorted.erase(std::lower_bound(h.sorted.begin(), h.sorted.end(), h.norms.front()));
    h.norms.pop_front();
  }
  h.norms.push_back(norm);
  h.sorted.insert(std::upper_bound(h.sorted.begin(), h.sorted.end(), norm), norm);
}

ScaleThrashDetector::ScaleThrashDetector(const AnomalyThresholds& t, const ScalerParams& params)
    : t_(t),
      at_once_(std::max<std::uint64_t>(
          static_cast<std::uint64_t>(t.thrash_share * static_cast<double>(params.interval)),
          params.hysteresis)) {}

void ScaleThrashDetector::observe(const StepRecord& r, std::vector<Anomaly>& out) {
  const double before = r.decision.scale;
  const double after = r.scaler.scale;
  if (before == after || r.step <= changed_step_) return;
  changed_step_ = r.step;
  if (after > before) {
    if (growth_step_ != 0) lost_in_row_ = 0;  // the one before it held
    growth_step_ = r.step;
    return;
  }
  if (growth_step_ == 0) return;  // further down
  lost_in_row_ = r.step - growth_step_ <= at_once_ ? lost_in_row_ + 1 : 0;
  growth_step_ = 0;
  if (lost_in_row_ != t_.thrash_growths) return;
  out.push_back(
      {AnomalyKind::kScaleThrash, r.step, r.decision.offender, kNoRange, static_cast<double>(lost_in_row_)});
}

void Detectors::observe(const StepRecord& record, std::vector<Anomaly>& out) {
  nan_.observe(record, out);
  overflow_.observe(record, out);
  floor_.observe(record, out);
  skips_.observe(record, out);
  divergence_.observe(record, out);
  spike_.observe(record, out);
  thrash_.observe(record, out);
}

void Detectors::observe(std::span<const RangeRecord> fresh, std::vector<Anomaly>& out) {
  for (const RangeRecord& record : fresh) {
    nan_.observe(record, out);
    overflow_.observe(record, out);
  }
  underflow_.observe(fresh, out);
}

}  // namespace stepgate::metrics

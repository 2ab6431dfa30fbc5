#include "metrics/gate_series.h"

#include <limits>

#include "metrics/label.h"

namespace stepgate::metrics {
namespace {

// One counter per name, in the order of the names.
template <std::size_t N>
std::array<CounterRef*, N> named(Series& s, FamilyId id, const char* label,
                                 const std::array<const char*, N>& names, const Labels& more = {}) {
  std::array<CounterRef*, N> refs{};
  for (std::size_t i = 0; i < N; ++i) {
    Labels labels = more;
    labels.emplace(label, names[i]);
    refs[i] = &s.counter(id, labels);
  }
  return refs;
}

CounterRef& scale_change(Series& s, const char* direction) {
  return s.counter(FamilyId::kLossScaleChanges, {{"direction", direction}});
}

std::array<const char*, kSkipReasons.size()> skip_reason_names() {
  std::array<const char*, kSkipReasons.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = reason_name(kSkipReasons[i]);
  return names;
}

}  // namespace

EnforceSeries::EnforceSeries(Series& s)
    : steps(s.counter(FamilyId::kSteps)),
      applied(s.counter(FamilyId::kStepsApplied)),
      clipped(s.counter(FamilyId::kStepsClipped)),
      skipped(named(s, FamilyId::kStepsSkipped, "reason", skip_reason_names())),
      consecutive_skips(s.gauge(FamilyId::kConsecutiveSkips)),
      last_decision(s.gauge(FamilyId::kLastDecision)),
      loss_scale(s.gauge(FamilyId::kLossScale)),
      at_minimum(s.gauge(FamilyId::kLossScaleAtMinimum)),
      steps_at_minimum(s.counter(FamilyId::kStepsAtMinimum)),
      scale_up(scale_change(s, "up")),
      scale_down(scale_change(s, "down")),
      scale_external(scale_change(s, "external")),
      growth_tracker(s.gauge(FamilyId::kGrowthTracker)),
      hysteresis(s.gauge(FamilyId::kHysteresisRemaining)),
      norm(s.gauge(FamilyId::kGradientNorm)),
      norm_hist(s.histogram(FamilyId::kGradientNormHist)),
      clip(s.gauge(FamilyId::kClipCoefficient)),
      offending_rank(s.gauge(FamilyId::kOffendingRank)),
      agreement(s.histogram(FamilyId::kAgreementDuration)),
      divergence(s.counter(FamilyId::kDivergence)) {
  // Before the first record a 0 would be a statement; these are not.
  norm.set(std::numeric_limits<double>::quiet_NaN());
  clip.set(1);
  offending_rank.set(kOffenderUnknown);
}

GateSeries::GateSeries(Registry& registry, const Labels& base, std::size_t bucket_cap)
    : bucket_cap_(bucket_cap),
      series_(registry, base),
      buckets_(series_, bucket_cap),
      enforcing(series_.gauge(FamilyId::kEnforcing)),
      refused(named(series_, FamilyId::kEnforceRefused, "reason", kRefuseReasonNames)),
      released(named(series_, FamilyId::kEnforceReleased, "reason", kReleaseReasonNames)),
      anomalies(named(series_, FamilyId::kAnomalies, "kind", kAnomalyKindNames)),
      ranges_missing(series_.counter(FamilyId::kRangesMissing)),
      ranges_rescanned(series_.counter(FamilyId::kRangesRescanned)),
      hooks_missed(named(series_, FamilyId::kHooksMissed, "cause", kMissCauseNames)),
      scanned(named(series_, FamilyId::kReductions, "op", kReductionOpNames, {{"handling", "scanned"}})),
      passed(named(series_, FamilyId::kReductions, "op", kReductionOpNames, {{"handling", "passed"}})),
      scanned_bytes(named(series_, FamilyId::kScannedBytes, "phase", kPhaseNames)),
      scan(series_.histogram(FamilyId::kScanDuration)),
      errors(named(series_, FamilyId::kPluginErrors, "stage", kStageNames)),
      dropped(series_.counter(FamilyId::kEventsDropped)) {}

void GateSeries::set_identity(const Identity& who) {
  const Labels build = {{"version", label_text(who.version)},
                        {"device", label_text(who.device)},
                        {"nccl_version", label_text(who.nccl_version)},
                        {"rule", label_text(who.rule)}};
  const Labels job = {{"job_name", label_text(who.job_name)},
                      {"run_id", label_text(who.run_id)},
                      {"world_size", std::to_string(who.world)}};
  if (who.torchelastic_restarts)
    restarts("torchelastic").set(static_cast<double>(*who.torchelastic_restarts));
  if (who.slurm_restarts) restarts("slurm").set(static_cast<double>(*who.slurm_restarts));
  if (build_info_ == nullptr) {
    build_info_ = &series_.gauge(FamilyId::kBuildInfo, build);
    job_info_ = &series_.gauge(FamilyId::kJobInfo, job);
    build_info_->set(1);
    job_info_->set(1);
    return;
  }
  series_.relabel(*build_info_, build);
  series_.relabel(*job_info_, job);
}

EnforceSeries& GateSeries::enforce() {
  if (!enforce_) enforce_ = std::make_unique<EnforceSeries>(series_);
  return *enforce_;
}

GaugeRef& GateSeries::restarts(const char* by) {
  return series_.gauge(FamilyId::kJobRestarts, {{"by", by}});
}

GaugeRef& GateSeries::observed_norm() {
  if (observed_norm_ == nullptr) {
    observed_norm_ = &series_.gauge(FamilyId::kObservedNorm, {{"source", "inferred"}});
  }
  return *observed_norm_;
}

GaugeRef& GateSeries::unscaled_norm() {
  if (unscaled_norm_ == nullptr) {
    unscaled_norm_ = &series_.gauge(FamilyId::kObservedNorm, {{"source", "unscaled"}});
  }
  return *unscaled_norm_;
}

GaugeRef& GateSeries::external_scale() {
  if (external_scale_ == nullptr) external_scale_ = &series_.gauge(FamilyId::kExternalScale);
  return *external_scale_;
}

}  // namespace stepgate::metrics

#include "metrics/catalogue.h"

#include <array>

namespace stepgate::metrics {
namespace {

constexpr FamilyType C = FamilyType::kCounter;
constexpr FamilyType G = FamilyType::kGauge;
constexpr FamilyType H = FamilyType::kHistogram;
constexpr Since O = Since::kObserve;
constexpr Since E = Since::kEnforce;
using Id = FamilyId;

constexpr std::array<FamilyInfo, kFamilies> kTable = {{
    {Id::kBuildInfo, "stepgate_build_info", G, "version,device,nccl_version,rule", O,
     "Always 1. What is running: join on it instead of copying its labels."},
    {Id::kJobInfo, "stepgate_job_info", G, "job_name,run_id,world_size", O,
     "Always 1. The training job that this process belongs to."},
    {Id::kEnforcing, "stepgate_enforcing", G, "", O,
     "1 while StepGate decides about optimizer steps, 0 while it only observes."},
    {Id::kEnforceRefused, "stepgate_enforce_refused_total", C, "reason", O,
     "Activations of enforce mode that were refused."},
    {Id::kEnforceReleased, "stepgate_enforce_released_total", C, "reason", O,
     "Agreements that ended, giving the decision back to the job."},
    {Id::kSteps, "stepgate_steps_total", C, "", E, "Optimizer steps judged, each once for all its sets."},
    {Id::kStepsApplied, "stepgate_steps_applied_total", C, "", E,
     "Decisions to apply, one per decision set and step."},
    {Id::kStepsClipped, "stepgate_steps_clipped_total", C, "", E,
     "Decisions to apply with a clip coefficient below 1."},
    {Id::kStepsSkipped, "stepgate_steps_skipped_total", C, "reason", E,
     "Decisions to skip, one per decision set and step."},
    {Id::kConsecutiveSkips, "stepgate_consecutive_skips", G, "", E,
     "Skips in a row up to now; the longest run where there are several decision sets."},
    {Id::kLastDecision, "stepgate_last_decision_timestamp_seconds", G, "", E,
     "Unix time of the last decision."},
    {Id::kLossScale, "stepgate_loss_scale", G, "", E, "Loss scale of the next backward pass."},
    {Id::kLossScaleAtMinimum, "stepgate_loss_scale_at_minimum", G, "", E,
     "1 while the loss scale stands at the minimum of its rule."},
    {Id::kStepsAtMinimum, "stepgate_steps_at_minimum_scale_total", C, "", E,
     "Steps whose backward pass ran with the loss scale at its minimum."},
    {Id::kLossScaleChanges, "stepgate_loss_scale_changes_total", C, "direction", E,
     "Changes of the loss scale, by the scaler (up, down) or by the caller (external)."},
    {Id::kGrowthTracker, "stepgate_growth_tracker", G, "", E,
     "Good steps since the loss scale last changed."},
    {Id::kHysteresisRemaining, "stepgate_hysteresis_remaining", G, "", E,
     "Overflows that the scaler still tolerates before it backs off."},
    {Id::kGradientNorm, "stepgate_gradient_norm", G, "", E,
     "Global gradient norm of the last step, unscaled and before clipping; NaN when it was skipped."},
    {Id::kGradientNormHist, "stepgate_gradient_norm_hist", H, "", E,
     "Global gradient norms of the applied steps, unscaled and before clipping."},
    {Id::kObservedNorm, "stepgate_observed_gradient_norm", G, "source", O,
     "Norm of this rank's observed gradients: as stored, loss scale included (inferred), or by the job's own "
     "scale (unscaled); NaN once decisions are made."},
    {Id::kClipCoefficient, "stepgate_clip_coefficient", G, "", E,
     "Factor by which the last step was clipped; 1 when it was not."},
    {Id::kAbsMax, "stepgate_gradient_abs_max", G, "bucket", O,
     "Largest finite magnitude of the reduced gradient as stored, loss scale included."},
    {Id::kZeroRatio, "stepgate_gradient_zero_ratio", G, "bucket", O,
     "Share of elements of the reduced gradient that are zero."},
    {Id::kSubnormalRatio, "stepgate_gradient_subnormal_ratio", G, "bucket", O,
     "Share of elements of the reduced gradient below the smallest normal of the compute type."},
    {Id::kNonfinite, "stepgate_nonfinite_elements_total", C, "kind,phase,bucket", O,
     "Infinite and NaN gradient elements seen on this rank, before (local) and after (reduced) the "
     "reduction."},
    {Id::kOffendingRank, "stepgate_offending_rank", G, "", E,
     "Rank blamed for the last skip: -1 the reduction itself, -2 several ranks, -3 unknown or none."},
    {Id::kAnomalies, "stepgate_anomalies_total", C, "kind", O, "Anomalies found in gradients and decisions."},
    {Id::kRangesMissing, "stepgate_ranges_missing_total", C, "", O,
     "Declared gradients that no hooked reduction covered and that were scanned at step end."},
    {Id::kRangesRescanned, "stepgate_ranges_rescanned_total", C, "", O,
     "Declared gradients scanned again because they were reduced more than once in a step."},
    {Id::kHooksMissed, "stepgate_hooks_missed_total", C, "cause", O,
     "Ways to NCCL that the hooks do not see, once each, and calls noticed there."},
    {Id::kReductions, "stepgate_reductions_total", C, "op,handling", O,
     "Reductions issued by the job: scanned as gradients or passed through."},
    {Id::kScannedBytes, "stepgate_scanned_bytes_total", C, "phase", O, "Gradient bytes scanned."},
    {Id::kScanDuration, "stepgate_scan_duration_seconds", H, "", O,
     "Time spent scanning gradients in one step."},
    {Id::kAgreementDuration, "stepgate_agreement_duration_seconds", H, "", E,
     "Time that the agreement of one step took."},
    {Id::kDivergence, "stepgate_divergence_total", C, "", E,
     "Steps in which ranks held different state or decisions."},
    {Id::kPluginErrors, "stepgate_plugin_errors_total", C, "stage", O,
     "Failures inside the plugin that were kept away from the job."},
    {Id::kEventsDropped, "stepgate_events_dropped_total", C, "", O,
     "Step records overwritten before they could be published."},
    {Id::kJobRestarts, "stepgate_job_restarts", G, "by", O,
     "Restarts of the job so far, as torchrun (torchelastic) or Slurm counts them."},
    {Id::kJobRanksUp, "stepgate_job_ranks_up", G, "", O, "Ranks that answer rank 0."},
    {Id::kJobRanksSilent, "stepgate_job_ranks_silent", G, "", O,
     "Ranks that are silent: not heard from, or not at the exchange that others wait in."},
    {Id::kJobLastStep, "stepgate_job_last_step", G, "bound", O,
     "Newest step decided, of the rank that is behind all others (lowest) and ahead (highest)."},
    {Id::kJobLossScale, "stepgate_job_loss_scale", G, "bound", O,
     "Loss scale of the next backward pass, the lowest and highest of all ranks."},
    {Id::kJobOffendersDropped, "stepgate_job_offenders_dropped_total", C, "", O,
     "Entries of the list of offenders that had to make room for newer ones."},
    {Id::kRankUp, "stepgate_job_rank_up", G, "rank", O, "1 while the rank answers rank 0."},
    {Id::kRankSilentSeconds, "stepgate_job_rank_silent_seconds", G, "rank", O,
     "Seconds without a word from the rank, or since others wait for it at an exchange."},
    {Id::kRankLastStep, "stepgate_job_rank_last_step", G, "rank", O,
     "Newest step that the rank has decided."},
    {Id::kRankLossScale, "stepgate_job_rank_loss_scale", G, "rank", O,
     "The rank's loss scale of the next backward pass."},
    {Id::kRankEnforcing, "stepgate_job_rank_enforcing", G, "rank", O,
     "1 while the rank enforces and is not released."},
    {Id::kRankSkipped, "stepgate_job_rank_steps_skipped_total", C, "rank", O,
     "Decisions to skip on the rank."},
    {Id::kRankNonfinite, "stepgate_job_rank_nonfinite_elements_total", C, "rank,kind", O,
     "Infinite and NaN gradient elements of the rank before the reduction."},
    {Id::kObservationAbsMax, "stepgate_observation_abs_max", G, "name,phase", O,
     "Largest finite magnitude of what the job showed under this name."},
    {Id::kObservationRms, "stepgate_observation_rms", G, "name,phase", O,
     "Root of the mean square of its finite elements; NaN where there is none."},
    {Id::kObservationZeroRatio, "stepgate_observation_zero_ratio", G, "name,phase", O,
     "Share of its elements that are zero."},
    {Id::kObservationSubnormalRatio, "stepgate_observation_subnormal_ratio", G, "name,phase", O,
     "Share of its elements below the smallest normal of the compute type."},
    {Id::kObservationNonfinite, "stepgate_observation_nonfinite_elements_total", C, "kind,name,phase", O,
     "Infinite and NaN elements of what the job showed."},
    {Id::kUpdateAbsorbedRatio, "stepgate_update_absorbed_ratio", G, "name", O,
     "Share of the elements with an update that is not zero whose stored value it did not change."},
    {Id::kExternalScale, "stepgate_external_loss_scale", G, "", O,
     "Loss scale of the job's own scaler in the newest step that was seen."},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<std::size_t>(kTable[i].id) != i) return false;
  }
  return true;
}
static_assert(in_order(), "catalogue.cc: the table's rows must follow enum FamilyId");

}  // namespace

std::span<const FamilyInfo> catalogue() noexcept {
  return kTable;
}

const FamilyInfo& family_info(FamilyId id) noexcept {
  return kTable[static_cast<std::size_t>(id)];
}

const char* family_type_name(FamilyType type) noexcept {
  switch (type) {
    case FamilyType::kCounter: return "counter";
    case FamilyType::kGauge: return "gauge";
    case FamilyType::kHistogram: return "histogram";
  }
  return "";
}

// Literals, not computed: the page prints them and a sum of floating steps would print noise.
std::vector<double> histogram_bounds(FamilyId id) {
  if (id == FamilyId::kGradientNormHist) {
    return {1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3};
  }
  if (id == FamilyId::kScanDuration || id == FamilyId::kAgreementDuration) {
    return {1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2,
            2e-2, 5e-2, 0.1,  0.2,  0.5,  1,    2,    5,    10};
  }
  return {};
}

}  // namespace stepgate::metrics

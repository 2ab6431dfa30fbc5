// The catalogue: every metric family that StepGate exports, as one table. docs/metrics.md repeats
// it and a test holds the two equal; nothing else in the tree spells a family name.
//
// Thread: any. The table is constant; nobody owns it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace stepgate::metrics {

enum class FamilyType { kCounter, kGauge, kHistogram };

// The mode from which a family exists. Families of kEnforce speak of a scale or a decision: they are
// absent until the gate has enforced once, and stay from then on.
enum class Since { kObserve, kEnforce };

// Index into catalogue(), in the order of the table there.
enum class FamilyId : std::size_t {
  kBuildInfo,
  kJobInfo,
  kEnforcing,
  kEnforceRefused,
  kEnforceReleased,
  kSteps,
  kStepsApplied,
  kStepsClipped,
  kStepsSkipped,
  kConsecutiveSkips,
  kLastDecision,
  kLossScale,
  kLossScaleAtMinimum,
  kStepsAtMinimum,
  kLossScaleChanges,
  kGrowthTracker,
  kHysteresisRemaining,
  kGradientNorm,
  kGradientNormHist,
  kObservedNorm,
  kClipCoefficient,
  kAbsMax,
  kZeroRatio,
  kSubnormalRatio,
  kNonfinite,
  kOffendingRank,
  kAnomalies,
  kRangesMissing,
  kRangesRescanned,
  kHooksMissed,
  kReductions,
  kScannedBytes,
  kScanDuration,
  kAgreementDuration,
  kDivergence,
  kPluginErrors,
  kEventsDropped,
  kJobRestarts,
  kJobRanksUp,
  kJobRanksSilent,
  kJobLastStep,
  kJobLossScale,
  kJobOffendersDropped,
  kRankUp,
  kRankSilentSeconds,
  kRankLastStep,
  kRankLossScale,
  kRankEnforcing,
  kRankSkipped,
  kRankNonfinite,
  kObservationAbsMax,
  kObservationRms,
  kObservationZeroRatio,
  kObservationSubnormalRatio,
  kObservationNonfinite,
  kUpdateAbsorbedRatio,
  kExternalScale,
};
inline constexpr std::size_t kFamilies = 57;

struct FamilyInfo {
  FamilyId id;
  const char* name;
  FamilyType type;
  const char* labels;  // comma separated; `gate` is understood everywhere
  Since since;
  const char* help;
};

std::span<const FamilyInfo> catalogue() noexcept;
const FamilyInfo& family_info(FamilyId id) noexcept;
inline bool needs_enforce(const FamilyInfo& f) noexcept {
  return f.since == Since::kEnforce;
}

const char* family_type_name(FamilyType type) noexcept;  // "counter", "gauge", "histogram"

// Upper bounds of a histogram family, three a decade (1, 2, 5); empty for other types.
std::vector<double> histogram_bounds(FamilyId id);

}  // namespace stepgate::metrics

// decide(): one pure function from the summed StepSummary to the step's Decision. Host and device.
//
// Thread: any. Every rank calls it on the same bits and gets the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/core/host_device.h"
#include "collectives/core/scaler.h"
#include "collectives/core/step_summary.h"

namespace stepgate {

// Values are exported to Prometheus, JSON and the C API: never renumber.
enum class Reason : std::uint32_t {
  kNone = 0,
  kNan = 1,  // by precedence: nan, inf, veto, norm
  kInf = 2,
  kVeto = 3,
  kNorm = 4,
};
inline constexpr std::uint32_t kReasonCount = 5;
const char* reason_name(Reason r) noexcept;  // "none", "nan", "inf", "veto", "norm"

// Who multiplies the gradients by inv_scale and the clip coefficient.
enum class UnscaleMode : std::uint32_t {
  kDeferred = 0,  // the optimizer, from (multiplier, grad_scale)
  kApply = 1,     // stepgate_apply, in one pass at step end
  kInHook = 2,    // the scan after the reduction
};

enum class DivergencePolicy : std::uint32_t { kReport = 0, kVeto = 1, kError = 2 };

// What steps come to once the agreement has ended, until the job activates again or leaves.
enum class ReleasedPolicy : std::uint16_t {
  kSkip = 0,      // found_inf stays 1
  kUnguarded = 1  // they are applied as they are: this rank unscales, nobody looks at them and nobody clips
};

// How a step is judged. Zero means "not set" for the two norms.
struct StepPolicy {
  double max_norm = 0;   // clip: coefficient min(1, max_norm / (norm + 1e-6))
  double skip_norm = 0;  // skip when norm > skip_norm
  UnscaleMode unscale = UnscaleMode::kDeferred;
  DivergencePolicy divergence = DivergencePolicy::kVeto;
  std::uint32_t world = 1;          // the agreement's size, fixed at activation
  std::uint16_t release_after = 3;  // diverging steps in a row before release
  ReleasedPolicy released = ReleasedPolicy::kSkip;
};
static_assert(sizeof(StepPolicy) == 32, "StepPolicy is shared with device code");

// What a step decided. norm is the unscaled global norm, meaningless when skipped.
struct Decision {
  double norm = 0;
  double clip = 1;       // 1 when not clipped
  double scale = 1;      // the scale that this step's backward used
  float found_inf = 1;   // exactly 0 or 1; 1 for every skip whatever the reason
  float multiplier = 1;  // gradients times this are ready for the optimizer
  float grad_scale = 1;  // divisor, as torch's fused optimizers take it
  std::uint32_t skip = 1;
  Reason reason = Reason::kNone;
  std::uint32_t overflow = 0;  // inf or NaN: what the scaler calls an overflow
  std::int32_t offender = kOffenderUnknown;
  std::uint32_t released = 0;  // the agreement ended with this step
  std::uint32_t diverged = 0;
  std::int32_t odd_rank = -1;
};
static_assert(sizeof(Decision) == 64, "Decision is shared with device code and tables: 64 bytes");

// fields: the SUM over all ranks. scale: latched at step begin. own digests: what this rank put into
// the sum, for the naming of an odd rank. After `apply` ran the handed out pair is (1, 1): see gate_block.h.
STEPGATE_HD Decision decide(const double* fields, double scale, const StepPolicy& policy,
                            std::uint32_t own_digest_a, std::uint32_t own_digest_b);

// Why an agreement ended, as its sums show. Values are in tables shared with device code: never renumber.
enum class ReleaseCause : std::uint32_t { kDegraded = 0, kContributors = 1, kUndecided = 2, kDivergence = 3 };
STEPGATE_HD ReleaseCause release_cause(const double* fields, std::uint32_t world);

// The constant decision of a step that could not be decided or was released: skip, nothing known.
STEPGATE_HD Decision undecided_step(double scale);

// That of a step after the release with ReleasedPolicy::kUnguarded: applied with what unscales it, nothing
// known; a skip where fp32 cannot hold that.
STEPGATE_HD Decision unguarded_step(double scale);

}  // namespace stepgate

#include "collectives/core/decision_impl.h"

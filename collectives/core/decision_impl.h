// Definitions behind decision.h. Include that, not this.
#pragma once

#include <cmath>

#include "collectives/core/decision.h"

namespace stepgate {
namespace decision_detail {

using scaler_detail::usable_fp32;

STEPGATE_HD inline Reason first_reason(const double* f, const StepPolicy& policy, double norm) {
  if (f[kSumNan] != 0 || f[kSumLocalNan] != 0) return Reason::kNan;
  if (f[kSumInf] != 0 || f[kSumLocalInf] != 0) return Reason::kInf;
  if (f[kSumVeto] != 0) return Reason::kVeto;
  if (f[kSumNormOverflow] != 0) return Reason::kNorm;
  // !(norm <= limit) also catches a norm that is not a number.
  if (policy.skip_norm > 0 && !(norm <= policy.skip_norm)) return Reason::kNorm;
  return Reason::kNone;
}

STEPGATE_HD inline void judge_divergence(const double* f, const StepPolicy& policy, Decision& d,
                                         std::uint32_t own_a, std::uint32_t own_b) {
  const double n = f[kSumContributors];
  const bool equal_a = all_equal(n, f[kSumDigestA], f[kSumDigestASquared]);
  const bool equal_b = all_equal(n, f[kSumDigestB], f[kSumDigestBSquared]);
  const bool same_step =
      all_equal(n, f[kSumStep], f[kSumStepSquared]) && all_equal(n, f[kSumSet], f[kSumSetSquared]);
  if (equal_a && equal_b && same_step) return;
  d.diverged = 1;
  if (!equal_a) {
    d.odd_rank = odd_rank(own_a, n, f[kSumDigestA], f[kSumDigestASquared], f[kSumDigestARank]);
  }
  if (!equal_b && d.odd_rank < 0) {
    d.odd_rank = odd_rank(own_b, n, f[kSumDigestB], f[kSumDigestBSquared], f[kSumDigestBRank]);
  }
  if (policy.divergence != DivergencePolicy::kReport && d.reason == Reason::kNone) {
    d.reason = Reason::kVeto;
  }
}

// (multiplier, grad_scale) of an applied step; false when fp32 cannot hold one of them.
STEPGATE_HD inline bool hand_out(const StepPolicy& policy, Decision& d) {
  const double inv_scale = static_cast<double>(static_cast<float>(1.0 / d.scale));
  double multiplier = inv_scale * d.clip;
  double grad_scale = d.scale / d.clip;
  if (policy.unscale == UnscaleMode::kInHook) {
    multiplier = d.clip;
    grad_scale = 1.0 / d.clip;
  }
  if (!usable_fp32(inv_scale) || !usable_fp32(multiplier) || !usable_fp32(grad_scale)) return false;
  d.multiplier = static_cast<float>(multiplier);
  d.grad_scale = static_cast<float>(grad_scale);
  return true;
}

}  // namespace decision_detail

STEPGATE_HD inline Decision undecided_step(double scale) {
  Decision d;
  d.scale = scale;
  return d;
}

// Whatever the unscale mode: once an agreement has ended no scan multiplies, so the optimizer has to.
STEPGATE_HD inline Decision unguarded_step(double scale) {
  Decision d = undecided_step(scale);
  d.released = 1;
  const StepPolicy deferred;
  if (!decision_detail::hand_out(deferred, d)) return d;
  d.skip = 0;
  d.found_inf = 0;
  return d;
}

STEPGATE_HD inline Decision decide(const double* f, double scale, const StepPolicy& policy,
                                   std::uint32_t own_a, std::uint32_t own_b) {
  Decision d = undecided_step(scale);
  const bool complete = f[kSumContributors] == static_cast<double>(policy.world) && plausible_sums(f);
  if (f[kSumDegrade] != 0 || f[kSumUndecided] != 0 || !complete) {
    d.released = 1;
    d.reason = Reason::kVeto;
    return d;
  }
  const double norm = norm_from_limbs(f + kSumLimb0);
  d.reason = decision_detail::first_reason(f, policy, norm);
  d.overflow = d.reason == Reason::kNan || d.reason == Reason::kInf;
  decision_detail::judge_divergence(f, policy, d, own_a, own_b);
  if (d.overflow) d.offender = offending_rank(f, policy.world);
  if (d.reason != Reason::kNone) return d;

  d.norm = norm;
  if (policy.max_norm > 0) {
    const double clip = policy.max_norm / (norm + 1e-6);
    d.clip = clip < 1.0 ? clip : 1.0;
  }
  if (!decision_detail::hand_out(policy, d)) {
    d.reason = Reason::kNorm;
    d.norm = 0;
    d.clip = 1;
    return d;
  }
  d.skip = 0;
  d.found_inf = 0;
  return d;
}

STEPGATE_HD inline ReleaseCause release_cause(const double* fields, std::uint32_t world) {
  if (fields[kSumDegrade] != 0) return ReleaseCause::kDegraded;
  if (fields[kSumContributors] != static_cast<double>(world)) return ReleaseCause::kContributors;
  return fields[kSumUndecided] != 0 ? ReleaseCause::kUndecided : ReleaseCause::kDivergence;
}

}  // namespace stepgate

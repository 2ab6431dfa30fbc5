// Gate: handing a decision out: waiting for it, applying it, the fixed outputs.
#include <algorithm>
#include <limits>
#include <string>

#include "plugin/core/gate.h"
#include "plugin/core/last_error.h"

namespace stepgate::gate {
namespace {

std::string set_text(std::uint32_t set) {
  return "set " + std::to_string(set) + "; allowed: 0 to " + std::to_string(kMaxSets - 1);
}

}  // namespace

// A replayed graph begins steps that no call of ours begins; the device may be writing the mirror meanwhile.
// Without one the host knows, and does not look at what a copy on a stream may be writing.
std::uint64_t Gate::begun_steps_locked() const {
  if (!captured_) return step_;
  return std::max(step_, std::atomic_ref<std::uint64_t>(mirror_.get()->step).load(std::memory_order_acquire));
}

stepgate_status Gate::verdict_locked(std::uint32_t set) const {
  const GateBlock& g = *mirror_.get();
  const SetBlock& s = g.sets[set];
  const std::string step = "step " + std::to_string(begun_steps_locked());
  if (g.released) {
    return fail(STEPGATE_RELEASED, step +
                                       ": the agreement has ended (a rank failed, is missing, or ranks "
                                       "diverged); use your own check and leave with stepgate_enforce_end");
  }
  if (!any_begun_ || s.decided_step != begun_steps_locked()) {
    return fail(STEPGATE_UNDECIDED, step + ": no decision reached this rank; apply nothing");
  }
  if (s.decision.diverged && options_.policy.divergence == DivergencePolicy::kError) {
    return fail(STEPGATE_DIVERGED, step + ": ranks hold different state; odd rank " +
                                       std::to_string(s.decision.odd_rank) + " (-1: not one alone)");
  }
  return STEPGATE_OK;
}

stepgate_status Gate::step_wait(std::uint32_t set, stepgate_decision* out) {
  if (set >= kMaxSets) return fail(STEPGATE_INVALID, "stepgate_step_wait: " + set_text(set));
  const stepgate_status waited = quiesce("stepgate_step_wait");
  if (waited == STEPGATE_INVALID) return waited;
  if (waited != STEPGATE_OK) {
    const std::lock_guard lock(mutex_);
    broken_ = true;  // a decision may have come, and this rank cannot follow it
    return STEPGATE_UNDECIDED;
  }
  const std::lock_guard lock(mutex_);
  harvest_locked();
  if (!any_begun_) return fail(STEPGATE_INVALID, "stepgate_step_wait: no step has been begun");
  const stepgate_status status = verdict_locked(set);
  if (out != nullptr) {
    const SetBlock& block = mirror_.get()->sets[set];
    const std::uint64_t step = begun_steps_locked();
    const bool known = block.decided_step == step || mirror_.get()->unguarded != 0;
    Decision d = known ? block.decision : undecided_step(mirror_.get()->latched_scale);
    if (status == STEPGATE_RELEASED) d.released = 1;
    fill_decision(d, step, mirror_.get()->scaler.scale, out);
    out->multiplier = known ? block.outputs.multiplier : 1;
    out->grad_scale = known ? block.outputs.grad_scale : 1;
  }
  return status;
}

void Gate::fill_decision(const Decision& d, std::uint64_t step, double next_scale,
                         stepgate_decision* out) const {
  out->step = step;
  out->skip = d.skip != 0;
  out->reason = static_cast<stepgate_reason>(d.reason);
  out->overflow = d.overflow != 0;
  out->released = d.released != 0;
  out->diverged = d.diverged != 0;
  out->odd_rank = d.diverged ? d.odd_rank : -1;
  out->offender = d.offender;
  // Nobody measured a step that was let through after a release.
  out->norm = d.skip || d.released ? std::numeric_limits<double>::quiet_NaN() : d.norm;
  out->clip = d.clip;
  out->scale = d.scale;
  out->next_scale = next_scale;
  out->multiplier = d.multiplier;
  out->grad_scale = d.grad_scale;
}

stepgate_status Gate::apply(std::uint32_t set, device::Stream s) {
  const std::lock_guard lock(mutex_);
  if (set >= kMaxSets) return fail(STEPGATE_INVALID, "stepgate_apply: " + set_text(set));
  if (options_.policy.unscale != UnscaleMode::kApply) {
    const char* mode = options_.policy.unscale == UnscaleMode::kInHook ? "in_hook" : "deferred";
    return fail(STEPGATE_INVALID,
                std::string("stepgate_apply: the gate's unscale mode is ") + mode + "; allowed: apply");
  }
  const device::CaptureState state = device_.capture_state(s);
  // An optimizer that is captured alone applies whatever its replays find decided; once a step, for
  // afterwards the multiplier is 1.
  const bool recorded = state == device::CaptureState::kCapturing && (!capturing_ || phase_ == Phase::kIdle);
  const std::uint32_t bit = 1u << set;
  // What goes on unguarded is unscaled like what was decided, also where its exchange fails.
  const bool unguarded =
      (summarized_ & bit) != 0 &&
      std::atomic_ref<std::uint32_t>(mirror_.get()->unguarded).load(std::memory_order_relaxed) != 0;
  // Nor does a call see the replays of a captured step.
  if (!recorded && !captured_ && (!((decided_ & bit) || unguarded) || (applied_sets_ & bit))) {
    return fail(STEPGATE_INVALID, "stepgate_apply: needs a decided step and runs once in it");
  }
  if (!recorded) applied_sets_ |= bit;
  if (!enter_locked(s, state)) return apply_failed("the order of its streams", state);
  collect_applies_locked(set);
  if (device_.apply_all(s, applies_) != device::Code::kOk) return apply_failed("the gradients", state);
  if (device_.mark_applied(s, block_.get(), set) != device::Code::kOk) {
    return apply_failed("the outputs, which still ask for an unscale", state);
  }
  mirror_locked(s);
  leave_locked(s, state);
  return STEPGATE_OK;
}

// The others have applied what this rank cannot: release all at the next step. What could not be recorded
// has run nowhere.
stepgate_status Gate::apply_failed(const char* what, device::CaptureState state) {
  if (state != device::CaptureState::kCapturing) broken_ = true;
  return fail(STEPGATE_FAILED, std::string("stepgate_apply: ") + what + ": " + device_.last_error());
}

void Gate::collect_applies_locked(std::uint32_t set) {
  applies_.clear();
  for (std::uint32_t i = 0; i < ranges_.slots(); ++i) {
    const Range& r = ranges_.slot(i);
    if (!r.declared || !r.spec.result || r.spec.set != set || r.absent) continue;
    for (const device::Segment& seg : r.spec.segments) {
      device::Apply job;
      job.data = const_cast<void*>(seg.data);
      job.count = seg.count;
      job.stored = r.spec.type;
      job.outputs = &block_.get()->sets[set].outputs;
      applies_.push_back(job);
    }
  }
}

stepgate_status Gate::outputs(std::uint32_t set, const Outputs** out) {
  if (set >= kMaxSets) return fail(STEPGATE_INVALID, "stepgate_outputs: " + set_text(set));
  *out = &block_.get()->sets[set].outputs;
  return STEPGATE_OK;
}

}  // namespace stepgate::gate

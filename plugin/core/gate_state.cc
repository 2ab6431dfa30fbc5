// Gate: history, offenders, state and checkpoints.
#include <algorithm>
#include <string>
#include <vector>

#include "collectives/core/compute_type.h"
#include "collectives/core/decimal.h"
#include "plugin/core/gate.h"
#include "plugin/core/last_error.h"

namespace stepgate::gate {

stepgate_status Gate::offenders(stepgate_offender* list, std::size_t* count) {
  const std::lock_guard harvest(mutex_);
  harvest_locked();
  const std::lock_guard lock(records_mutex_);
  const std::size_t n = std::min(*count, offenders_.size());
  std::copy(offenders_.end() - static_cast<std::ptrdiff_t>(n), offenders_.end(), list);
  *count = n;
  return STEPGATE_OK;
}

stepgate_status Gate::history(std::uint64_t after, stepgate_decision* list, std::size_t* count) {
  std::vector<StepRecord> records(kRingRecords);
  std::uint64_t lost = 0;
  const std::size_t have = copy_steps(0, records.data(), records.size(), &lost);
  std::size_t n = 0;
  for (std::size_t i = 0; i < have && n < *count; ++i) {
    if (records[i].step <= after) continue;
    list[n].size = sizeof(stepgate_decision);
    fill_decision(records[i].decision, records[i].step, records[i].scaler.scale, &list[n]);
    ++n;
  }
  *count = n;
  return STEPGATE_OK;
}

stepgate_status Gate::state(stepgate_scaler_info* info) {
  if (const stepgate_status still = quiesce("stepgate_state"); still != STEPGATE_OK) return still;
  const std::lock_guard lock(mutex_);
  const GateBlock& g = *mirror_.get();
  info->rule = scaler_rule_name(g.params.rule);
  info->scale = g.scaler.scale;
  info->growth_tracker = g.scaler.growth_tracker;
  info->hysteresis_left = g.scaler.hysteresis_left;
  info->at_minimum = at_minimum(g.params, g.scaler);
  info->steps = begun_steps_locked();
  info->applied = g.applied;
  info->skipped = g.skipped;
  info->last_decided = g.last_decided;
  info->last_confirmed = g.last_confirmed;
  info->generation = g.generation;
  info->enforcing = enforcing();
  info->released = g.released != 0;
  return STEPGATE_OK;
}

stepgate_status Gate::state_save(void* buffer, std::size_t* bytes) {
  if (const stepgate_status still = quiesce("stepgate_state_save"); still != STEPGATE_OK) return still;
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kIdle) {
    return fail(STEPGATE_INVALID,
                "stepgate_state_save: step " + std::to_string(step_) + " is open; save between steps");
  }
  const std::size_t needed = state_blob_bytes();
  const std::size_t given = *bytes;
  *bytes = needed;
  if (buffer == nullptr) return STEPGATE_OK;
  if (given < needed) {
    return fail(STEPGATE_INVALID, "stepgate_state_save: buffer of " + std::to_string(given) +
                                      " bytes; needed: " + std::to_string(needed));
  }
  const GateBlock& g = *mirror_.get();
  SavedState s;
  s.params = g.params;
  s.scaler = g.scaler;
  s.step = begun_steps_locked();
  s.applied = g.applied;
  s.skipped = g.skipped;
  s.generation = g.generation;
  s.last_decided = g.last_decided;
  // A checkpoint is taken where all ranks stand between the same two steps; the step before has been
  // decided here, and whether it was everywhere is what the activation compares.
  s.last_confirmed = g.last_confirmed;
  write_state_blob(s, buffer);
  return STEPGATE_OK;
}

stepgate_status Gate::state_load(const void* blob, std::size_t bytes) {
  SavedState s;
  std::string error;
  if (!read_state_blob(blob, bytes, &s, &error))
    return fail(STEPGATE_INVALID, "stepgate_state_load: " + error);
  if (const stepgate_status still = quiesce("stepgate_state_load"); still != STEPGATE_OK) return still;
  const std::lock_guard lock(mutex_);
  if (enforcing()) {
    return fail(STEPGATE_INVALID,
                "stepgate_state_load: enforce is active; load before stepgate_enforce_begin");
  }
  clamp_restored(&s);
  GateBlock fresh = *mirror_.get();
  fresh.params = s.params;
  fresh.scaler = s.scaler;
  fresh.latched_scale = s.scaler.scale;
  fresh.step = s.step;
  fresh.generation = s.generation;
  fresh.last_decided = s.last_decided;
  fresh.last_confirmed = s.last_confirmed;
  fresh.applied = s.applied;
  fresh.skipped = s.skipped;
  for (SetBlock& set : fresh.sets) {
    set.outputs.scale = static_cast<float>(s.scaler.scale);
    set.summarized_step = set.decided_step = s.step;
  }
  if (device_.copy_in(control_, block_.get(), &fresh, sizeof fresh) != device::Code::kOk ||
      device_.synchronize(control_) != device::Code::kOk) {
    return fail(STEPGATE_FAILED, std::string("stepgate_state_load: ") + device_.last_error());
  }
  step_ = s.step;
  any_begun_ = false;
  options_.params = s.params;
  observations_.judge(scales_loss(s.params));
  mirror_locked(control_);
  poked_locked();
  const std::lock_guard records(records_mutex_);
  published_params_ = s.params;
  return STEPGATE_OK;
}

// A state from another rule's life may hold a scale that this rule would never reach.
void Gate::clamp_restored(SavedState* s) const {
  if (options_.params.rule != s->params.rule) {
    log_.warn(std::string("the loaded state's rule '") + scaler_rule_name(s->params.rule) +
              "' replaces the configured '" + scaler_rule_name(options_.params.rule) + "'");
  }
  if (!rule_has_maximum(s->params.rule)) return;
  const double clamped = std::clamp(s->scaler.scale, s->params.minimum, s->params.maximum);
  if (clamped == s->scaler.scale) return;
  log_.warn("the loaded scale " + shortest_decimal(s->scaler.scale) + " is clamped to " +
            shortest_decimal(clamped));
  s->scaler.scale = clamped;
}

// The scaler stays, and so do the ranges: only what binds this rank to others goes.
stepgate_status Gate::end_agreement_locked(const char* function, std::uint64_t generation) {
  GateBlock fresh = *mirror_.get();
  fresh.generation = generation;
  fresh.rank = static_cast<std::uint32_t>(options_.rank);
  fresh.policy.world = static_cast<std::uint32_t>(options_.world);
  fresh.enforcing = 0;
  fresh.released = fresh.undecided = 0;
  for (SetBlock& set : fresh.sets) set.outputs.found_inf = 1;
  if (device_.copy_in(control_, block_.get(), &fresh, sizeof fresh) != device::Code::kOk ||
      device_.synchronize(control_) != device::Code::kOk) {
    return fail(STEPGATE_FAILED, std::string(function) + ": " + device_.last_error());
  }
  ++agreement_;
  enforcing_ = false;
  summary_in_doubt_ = summary_in_doubt_ || phase_ == Phase::kEnding;  // an exchange is under way
  phase_ = Phase::kIdle;
  mirror_locked(control_);
  poked_locked();
  return STEPGATE_OK;
}

stepgate_status Gate::reset(std::uint64_t generation) {
  abandon_recording();
  if (const stepgate_status still = quiesce("stepgate_reset"); still != STEPGATE_OK) return still;
  const std::lock_guard lock(mutex_);
  return end_agreement_locked("stepgate_reset", generation);
}

// A collective of the old world may never return. It keeps what it was given, and nothing is issued behind
// it: the new world has communicators of its own.
stepgate_status Gate::reset_world(std::uint64_t generation, int world, int rank) {
  abandon_recording();
  if (const stepgate_status still = quiesce("stepgate_reset_world"); still != STEPGATE_OK) return still;
  const std::lock_guard lock(mutex_);
  std::shared_ptr<PendingBallot> ballot;
  {
    const std::lock_guard records(records_mutex_);
    std::swap(options_.world, world);
    std::swap(options_.rank, rank);
  }
  ballot = make_ballot();
  stepgate_status ended =
      ballot != nullptr ? end_agreement_locked("stepgate_reset_world", generation)
                        : fail(STEPGATE_FAILED, std::string("stepgate_reset_world: ") + device_.last_error());
  if (ended != STEPGATE_OK) {
    const std::lock_guard records(records_mutex_);
    options_.world = world;
    options_.rank = rank;
    return ended;
  }
  ballot_->abandoned = true;
  ballot_ = std::move(ballot);
  exchange_stuck_ = false;
  groups_.clear();
  pending_.clear();
  return STEPGATE_OK;
}

}  // namespace stepgate::gate

// Definitions behind gate_block.h. Include that, not this.
#pragma once

#include "collectives/core/gate_block.h"

namespace stepgate {

STEPGATE_HD inline std::uint32_t digest16(const void* bytes, std::size_t size) {
  const auto* p = static_cast<const unsigned char*>(bytes);
  std::uint32_t h = 2166136261u;
  for (std::size_t i = 0; i < size; ++i) h = (h ^ p[i]) * 16777619u;
  return (h >> 16) ^ (h & 0xffffu);
}

namespace block_detail {

STEPGATE_HD inline double inverse_scale(double scale) {
  return static_cast<double>(static_cast<float>(1.0 / scale));
}

STEPGATE_HD inline float saturate_fp32(double x) {
  return x > 0x1.fffffep+127 ? 0x1.fffffep+127f : static_cast<float>(x);
}

STEPGATE_HD inline void write_outputs(GateBlock& g, SetBlock& s) {
  s.outputs.grad_scale = s.decision.grad_scale;
  s.outputs.multiplier = s.decision.multiplier;
  s.outputs.norm = s.decision.skip ? 0.0f : saturate_fp32(s.decision.norm);
  s.outputs.scale = static_cast<float>(g.scaler.scale);
  s.outputs.found_inf = s.decision.found_inf;
}

// `apply` multiplies after the decision: a product that the stored type cannot hold is found here.
STEPGATE_HD inline bool product_overflows(const GateBlock& g, const RangeSlot& r, double inv_scale) {
  return g.policy.unscale == UnscaleMode::kApply && r.reduced.abs_max * inv_scale > r.largest_storable;
}

// Chained over the sets of one step, so that none of its decisions goes unseen.
STEPGATE_HD inline void remember_digests(GateBlock& g, const Decision& d) {
  const std::uint64_t before = g.digest_b_step == g.step ? g.digest_b : 0;
  const struct {
    std::uint64_t before;
    double norm, clip, scale;
    std::uint32_t skip, reason;
  } seen = {before, d.norm, d.clip, d.scale, d.skip, static_cast<std::uint32_t>(d.reason)};
  g.digest_b = digest16(&seen, sizeof seen);
  g.digest_b_step = g.step;
}

// The latched scale too: one set by the caller is not part of the scaler's state.
STEPGATE_HD inline std::uint32_t state_digest(const GateBlock& g) {
  const struct {
    ScalerState scaler;
    double latched;
  } seen = {g.scaler, g.latched_scale};
  return digest16(&seen, sizeof seen);
}

// What a set shows from its summary on until a decision comes.
STEPGATE_HD inline void show_undecided(GateBlock& g, SetBlock& s) {
  s.decision = g.unguarded ? unguarded_step(g.latched_scale) : undecided_step(g.latched_scale);
  s.decision.released = g.released;
  write_outputs(g, s);
}

// False for sums that all speak of one step and set, which is not this rank's: a stale buffer. Ranks
// that disagree among themselves, and failures (whose constant summary knows no step), are
// decide()'s to judge.
STEPGATE_HD inline bool answers_summary(const GateBlock& g, std::uint32_t set, const double* f) {
  const double n = f[kSumContributors];
  if (!plausible_sums(f) || f[kSumDegrade] != 0) return true;
  if (n != static_cast<double>(g.policy.world)) return g.in_turns == 0;
  if (!all_equal(n, f[kSumStep], f[kSumStepSquared]) || !all_equal(n, f[kSumSet], f[kSumSetSquared])) {
    return true;
  }
  const auto step = static_cast<double>(g.step % kSummaryStepModulus);
  return f[kSumStep] == n * step && f[kSumSet] == n * set;
}

// Several diverging sets of one step count once.
STEPGATE_HD inline bool too_many_diverged(GateBlock& g) {
  if (g.diverged_step != g.step) {
    ++g.diverged_in_row;
    g.diverged_step = g.step;
  }
  return g.diverged_in_row >= g.policy.release_after;
}

STEPGATE_HD inline bool of_another_step(const GateBlock& g, std::uint64_t stamp) {
  return stamp != kUnstamped && stamp != g.step;
}

// What is left of a decision on a rank whose agreement has ended.
STEPGATE_HD inline Decision released_step(const Decision& judged, double scale) {
  Decision d = undecided_step(scale);
  d.reason = judged.reason == Reason::kNone ? Reason::kVeto : judged.reason;
  d.released = 1;
  d.diverged = judged.diverged;
  d.odd_rank = judged.odd_rank;
  d.offender = judged.offender;
  return d;
}

// One exchange proves that every rank came through the step before it, not through this one.
STEPGATE_HD inline void count_decided(GateBlock& g, const Decision& d) {
  if (g.last_decided != g.step) g.last_confirmed = g.last_decided;
  g.last_decided = g.step;
  if (d.overflow) g.step_overflow = 1;
  if (!d.skip) g.step_applied = 1;
}

}  // namespace block_detail

STEPGATE_HD inline void begin_step(GateBlock& g) {
  for (std::uint32_t i = 0; i < kMaxSets; ++i) {
    if (g.sets[i].decided_step < g.sets[i].summarized_step) g.undecided = 1;
  }
  if (g.diverged_step != g.step) g.diverged_in_row = 0;
  ++g.step;
  g.latched_scale = g.external_scale > 0 ? g.external_scale : g.scaler.scale;
  g.unscale_by = g.released ? 1 : g.latched_scale;
  g.unguarded = g.released && g.policy.released == ReleasedPolicy::kUnguarded;
  g.digest_a = block_detail::state_digest(g);
  g.veto = 0;
  g.step_overflow = 0;
  g.step_applied = 0;
}

STEPGATE_HD inline void clear_local(RangeSlot* slots, std::uint32_t slot_count) {
  for (std::uint32_t i = 0; i < slot_count; ++i) {
    slots[i].local = GradStats{};
    slots[i].first_bad_segment = -1;
  }
}

STEPGATE_HD inline void summarize_set(GateBlock& g, std::uint32_t set, const RangeSlot* slots,
                                      std::uint32_t slot_count, double* fields) {
  SetBlock& s = g.sets[set];
  block_detail::show_undecided(g, s);
  const double inv_scale = block_detail::inverse_scale(g.latched_scale);
  SummaryInput in;
  in.attributing = g.attributing;
  in.veto = g.veto != 0 || g.slots > slot_count;
  PairwiseSum squares;
  for (std::uint32_t i = 0; i < slot_count; ++i) {
    const RangeSlot& r = slots[i];
    if (r.set != set) continue;
    in.local_inf += r.local.inf;
    in.local_nan += r.local.nan;
    if (!r.live) continue;
    if (block_detail::of_another_step(g, r.local_step)) in.attributing = 0;
    if (block_detail::of_another_step(g, r.reduced_step)) {
      in.veto = 1;
      continue;
    }
    add_counts(in.stats, r.reduced);
    if (block_detail::product_overflows(g, r, inv_scale)) {
      ++in.stats.inf;
      in.attributing = 0;  // neither a rank's inputs nor the reduction made this one
    }
    if (!r.counted) continue;
    const double unscaled = rounded_product(r.reduced.sum_squares, rounded_product(inv_scale, inv_scale));
    squares.push(rounded_product(unscaled, rounded_product(r.factor, r.factor)));
  }
  in.norm_squares = squares.total();
  in.step = g.step;
  in.set = set;
  in.rank = g.rank;
  in.digest_a = g.digest_a;
  in.digest_b = g.digest_b;
  in.degrade = g.degrade | g.released;
  in.undecided = g.undecided;
  build_summary(in, fields);
  s.sent_digest_a = g.digest_a;
  s.sent_digest_b = g.digest_b;
  s.summarized_step = g.step;
}

STEPGATE_HD inline void decide_set(GateBlock& g, std::uint32_t set, const double* fields) {
  SetBlock& s = g.sets[set];
  for (int i = 0; i < kSummaryFields; ++i) s.summary[i] = fields[i];  // what the step's record tells
  if (!block_detail::answers_summary(g, set, fields)) {
    ++g.skipped;
    block_detail::show_undecided(g, s);
    return;
  }
  Decision d = decide(fields, g.latched_scale, g.policy, s.sent_digest_a, s.sent_digest_b);
  if (d.diverged && block_detail::too_many_diverged(g)) g.released = 1;
  if (d.released) g.released = 1;
  if (g.unguarded) {
    d = unguarded_step(g.latched_scale);
  } else if (g.released) {
    d = block_detail::released_step(d, g.latched_scale);
  } else {
    block_detail::count_decided(g, d);
  }
  ++(d.skip ? g.skipped : g.applied);
  s.decision = d;
  s.decided_step = g.step;
  block_detail::remember_digests(g, d);
  block_detail::write_outputs(g, s);
}

STEPGATE_HD inline void mark_applied(GateBlock& g, std::uint32_t set) {
  g.sets[set].outputs.grad_scale = 1;
  g.sets[set].outputs.multiplier = 1;
}

STEPGATE_HD inline void update_scale(GateBlock& g) {
  if (!g.released && (g.step_overflow || g.step_applied)) {
    update_scaler(g.params, g.step_overflow != 0, g.scaler);
  }
  g.step_overflow = 0;
  g.step_applied = 0;
  for (std::uint32_t i = 0; i < kMaxSets; ++i) {
    g.sets[i].outputs.scale = static_cast<float>(g.scaler.scale);
  }
}

STEPGATE_HD inline void release(GateBlock& g) {
  g.released = 1;
  for (std::uint32_t i = 0; i < kMaxSets; ++i) g.sets[i].outputs.found_inf = 1;
}

}  // namespace stepgate

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

STEPGATE_HD inline void remember_digests(GateBlock& g, const Decision& d) {
  struct {
    double norm, clip, scale;
    std::uint32_t skip, reason;
  } seen = {d.norm, d.clip, d.scale, d.skip, static_cast<std::uint32_t>(d.reason)};
  g.digest_b = digest16(&seen, sizeof seen);
}

}  // namespace block_detail

STEPGATE_HD inline void begin_step(GateBlock& g) {
  for (std::uint32_t i = 0; i < kMaxSets; ++i) {
    if (g.sets[i].decided_step < g.sets[i].summarized_step) g.undecided = 1;
  }
  ++g.step;
  g.digest_a = digest16(&g.scaler, sizeof g.scaler);
  g.latched_scale = g.external_scale > 0 ? g.external_scale : g.scaler.scale;
  g.veto = 0;
  g.step_overflow = 0;
  g.step_applied = 0;
}

STEPGATE_HD inline void summarize_set(GateBlock& g, std::uint32_t set, const RangeSlot* slots,
                                      std::uint32_t slot_count, double* fields) {
  SetBlock& s = g.sets[set];
  s.outputs.found_inf = 1;
  const double inv_scale = block_detail::inverse_scale(g.latched_scale);
  SummaryInput in;
  PairwiseSum squares;
  for (std::uint32_t i = 0; i < slot_count; ++i) {
    const RangeSlot& r = slots[i];
    if (r.set != set) continue;
    in.local_inf += r.local.inf;
    in.local_nan += r.local.nan;
    if (!r.live) continue;
    add_counts(in.stats, r.reduced);
    if (block_detail::product_overflows(g, r, inv_scale)) ++in.stats.inf;
    if (!r.counted) continue;
    squares.push(r.reduced.sum_squares * (inv_scale * inv_scale) * (r.factor * r.factor));
  }
  in.norm_squares = squares.total();
  in.step = g.step;
  in.set = set;
  in.rank = g.rank;
  in.digest_a = g.digest_a;
  in.digest_b = g.digest_b;
  in.veto = g.veto;
  in.degrade = g.degrade | g.released;
  in.undecided = g.undecided;
  in.attributing = g.attributing;
  build_summary(in, fields);
  s.summarized_step = g.step;
}

STEPGATE_HD inline void decide_set(GateBlock& g, std::uint32_t set, const double* fields) {
  SetBlock& s = g.sets[set];
  Decision d = decide(fields, g.latched_scale, g.policy, g.digest_a, g.digest_b);
  g.diverged_in_row = d.diverged ? g.diverged_in_row + 1 : 0;
  if (g.diverged_in_row >= g.policy.release_after) d.released = 1;
  if (g.released) d.released = 1;
  if (d.released) {
    const Reason why = d.reason == Reason::kNone ? Reason::kVeto : d.reason;
    const Decision judged = d;
    d = undecided_step(g.latched_scale);
    d.reason = why;
    d.released = 1;
    d.diverged = judged.diverged;
    d.odd_rank = judged.odd_rank;
    d.offender = judged.offender;
    g.released = 1;
  } else {
    g.last_confirmed = g.last_decided;
    g.last_decided = g.step;
    if (d.overflow) g.step_overflow = 1;
    if (!d.skip) g.step_applied = 1;
  }
  s.decision = d;
  s.decided_step = g.step;
  block_detail::remember_digests(g, d);
  block_detail::write_outputs(g, s);
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

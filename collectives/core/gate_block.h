// GateBlock: everything of a gate that lives where the gradients live, and the pure functions that
// move it through a step. One writer at a time: the stream that the step is ordered on.
//
//   begin_step -> (scans fill RangeSlots) -> summarize_set -> SUM over ranks -> decide_set
//   -> update_scale once a step. Host and device; a failure at any point leaves found_inf = 1.
//
// Addresses inside a GateBlock are fixed for the gate's life (optimizers and graphs keep them).
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/core/decision.h"
#include "collectives/core/grad_stats.h"
#include "collectives/core/host_device.h"
#include "collectives/core/scaler.h"
#include "collectives/core/step_summary.h"

namespace stepgate {

inline constexpr std::uint32_t kMaxSets = 8;

// What an optimizer reads, per decision set.
struct Outputs {
  float found_inf = 1;   // exactly 0 or 1
  float grad_scale = 1;  // divisor for the gradients
  float multiplier = 1;  // 1 / grad_scale in its own rounding
  float norm = 0;        // unscaled global norm in fp32 (saturating), 0 when skipped
  float scale = 1;       // the scale of the next backward
  float reserved[3] = {};
};
static_assert(sizeof(Outputs) == 32, "Outputs is part of the public ABI (stepgate_outputs)");

// Stamps of a slot's statistics that are no step.
inline constexpr std::uint64_t kUnstamped = 0;
inline constexpr std::uint64_t kNeverScanned = ~std::uint64_t{0};

// One declared range, as the scans see it. `reduced` counts, `local` only names offenders.
struct RangeSlot {
  GradStats reduced;
  GradStats local;
  double factor = 1;            // what the job still multiplies after the reduction
  double largest_storable = 0;  // largest finite value of the stored type
  std::uint32_t counted = 1;    // this rank counts it for the norm
  std::uint32_t live = 1;       // declared, result role, not absent this step
  std::uint32_t set = 0;
  std::int32_t first_bad_segment = -1;
  // The step that each half speaks of, as its scan stamped it; kUnstamped: whoever wrote it vouches for it.
  std::uint64_t reduced_step = kUnstamped;
  std::uint64_t local_step = kUnstamped;
};
static_assert(sizeof(RangeSlot) == 176, "RangeSlot is shared with device code");

struct SetBlock {
  Outputs outputs;
  Decision decision;
  double summary[kSummaryFields] = {};  // summed over the ranks, as decide_set read it
  std::uint32_t sent_digest_a = 0;      // what the summary carried; the block's own moves on
  std::uint32_t sent_digest_b = 0;
  std::uint64_t summarized_step = 0;
  std::uint64_t decided_step = 0;
};

struct GateBlock {
  ScalerParams params;
  StepPolicy policy;
  ScalerState scaler;
  double latched_scale = 1;  // the scale that this step's backward uses
  std::uint64_t step = 0;    // counts from 1; 0 before the first begin_step
  std::uint64_t generation = 0;
  std::uint64_t last_decided = 0;
  std::uint64_t last_confirmed = 0;  // decided here, and the next exchange showed all decided it
  std::uint32_t rank = 0;
  std::uint32_t enforcing = 0;
  std::uint32_t released = 0;
  std::uint32_t undecided = 0;  // a summary went out and no decision came (begin_step, or the host)
  std::uint32_t veto = 0;       // this step
  std::uint32_t degrade = 0;
  std::uint32_t attributing = 0;      // local scans covered every reduction of this step
  std::uint32_t diverged_in_row = 0;  // steps; back to 0 at the begin after a step without
  std::uint32_t step_overflow = 0;    // any set of this step had inf or NaN
  std::uint32_t step_applied = 0;     // any set of this step applied
  std::uint32_t digest_a = 0;         // scaler state and latched scale at begin_step
  std::uint32_t digest_b = 0;         // decisions and norm bits of the last decided step
  std::uint64_t digest_b_step = 0;    // the step that digest_b speaks of
  std::uint64_t diverged_step = 0;    // the last step that diverged
  std::uint64_t applied = 0;          // decisions, each set's
  std::uint64_t skipped = 0;
  std::uint32_t slots = 0;  // that the ranges of this gate take; 0: whoever calls vouches for it
  // The exchange goes over several groups in turn, so that its sums may be whole on some ranks and not on
  // others: what is not whole decides nothing, for elsewhere the step may have been applied.
  std::uint32_t in_turns = 0;
  // Since this step's begin: released, and the policy says that steps go on (ReleasedPolicy::kUnguarded).
  std::uint32_t unguarded = 0;
  std::uint32_t reserved = 0;
  double external_scale = 0;  // > 0: the caller's scale for this step, instead of the scaler's
  // What unscale = in_hook divides by in this step: the latched scale, 1 once the agreement has ended.
  double unscale_by = 1;
  SetBlock sets[kMaxSets];
};

// 16-bit digest of bytes (FNV-1a folded); equal bytes give equal digests on every machine.
STEPGATE_HD std::uint32_t digest16(const void* bytes, std::size_t size);

// Starts a step: counts it, latches the scale, clears the step's flags.
STEPGATE_HD void begin_step(GateBlock& g);

// Clears what the local scans of the last step left in the slots.
STEPGATE_HD void clear_local(RangeSlot* slots, std::uint32_t slot_count);

// Folds the slots of a set into this rank's summary (fields: kSummaryFields doubles, the caller's)
// and sets found_inf = 1 (and the rest of Outputs to a skip's) until a decision comes. A live slot whose
// reduced statistics are another step's is no gradient of this one: the rank vetoes. Local statistics of
// another step: the rank does not attribute. Fewer slots than the gate has by now (a graph that was captured
// before a range was declared): a gradient goes unseen, and the rank vetoes.
STEPGATE_HD void summarize_set(GateBlock& g, std::uint32_t set, const RangeSlot* slots,
                               std::uint32_t slot_count, double* fields);

// Judges the summed fields, writes Decision and Outputs of the set. Sums that do not answer this
// rank's summary (another step's, another set's; of too few ranks where it is summed in turns) decide
// nothing: the set stays undecided.
STEPGATE_HD void decide_set(GateBlock& g, std::uint32_t set, const double* fields);

// After `apply` multiplied the gradients of a set: multiplier and grad_scale become 1.
STEPGATE_HD void mark_applied(GateBlock& g, std::uint32_t set);

// Once a step, after all its sets: overflow if any set had inf or NaN; else good if any set applied.
STEPGATE_HD void update_scale(GateBlock& g);

// Ends the agreement on this rank: found_inf = 1 in every set until a new activation, or until the next step
// where those after a release go on unguarded.
STEPGATE_HD void release(GateBlock& g);

}  // namespace stepgate

#include "collectives/core/gate_block_impl.h"

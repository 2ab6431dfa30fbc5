// One step's StepRecord, gathered on the device.
//
// Thread: any one of the block. Device code.
#pragma once

#include <cstdint>

#include "collectives/core/records.h"
#include "collectives/device/cuda/kernels/arguments.h"
#include "collectives/device/cuda/kernels/intrinsics.h"

namespace stepgate::cuda {

// A summed count; a summary that never came holds zeros.
STEPGATE_DEVICE std::uint64_t count_of_field(double field) {
  return field > 0 && field < 0x1p63 ? static_cast<std::uint64_t>(field) : 0;
}

STEPGATE_DEVICE void add_slots_to_record(StepRecord& r, std::uint32_t set, const RangeSlot* slots,
                                         std::uint32_t count) {
  PairwiseSum squares;
  for (std::uint32_t i = 0; i < count; ++i) {
    const RangeSlot& slot = slots[i];
    if (slot.set != set) continue;
    r.local_inf += slot.local.inf;
    r.local_nan += slot.local.nan;
    if (!slot.live) continue;
    add_counts(r.local_sum, slot.reduced);
    squares.push(slot.reduced.sum_squares);
  }
  r.local_sum.sum_squares = squares.total();
}

STEPGATE_DEVICE void add_sums_to_record(StepRecord& r, const double* summary) {
  r.sum_elements = count_of_field(summary[kSumElements]);
  r.sum_inf = count_of_field(summary[kSumInf]);
  r.sum_nan = count_of_field(summary[kSumNan]);
  r.sum_local_inf = count_of_field(summary[kSumLocalInf]);
  r.sum_local_nan = count_of_field(summary[kSumLocalNan]);
}

// Everything but `sequence`.
STEPGATE_DEVICE StepRecord gather_record(const FinishArguments& a, std::uint32_t set,
                                         const RangeSlot* slots) {
  const GateBlock& g = *a.block;
  StepRecord r;
  r.step = g.step;
  r.set = set;
  r.rank = g.rank;
  r.decision = g.sets[set].decision;
  r.scaler = g.scaler;
  add_slots_to_record(r, set, slots, a.slot_count);
  add_sums_to_record(r, g.sets[set].summary);
  r.release_cause = release_cause(g.sets[set].summary, g.policy.world);
  r.timestamp_seconds = a.timestamp_seconds;
  r.scan_seconds = a.scan_seconds;
  r.agreement_seconds = a.agreement_seconds;
  return r;
}

}  // namespace stepgate::cuda

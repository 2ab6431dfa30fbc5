// One step's StepRecord, gathered on the device and appended to the ring in mapped host memory.
//
// Thread: thread 0 of the one block is the ring's single writer; host threads read meanwhile and trust
// a copy only when its sequence was the same before and after (records.h). Device code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/core/records.h"
#include "collectives/device/cuda/kernels/step.h"

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
STEPGATE_DEVICE StepRecord gather_record(const PublishArguments& a, const RangeSlot* slots) {
  const GateBlock& g = *a.block;
  StepRecord r;
  r.step = g.step;
  r.set = a.set;
  r.rank = g.rank;
  r.decision = g.sets[a.set].decision;
  r.scaler = g.scaler;
  add_slots_to_record(r, a.set, slots, a.slot_count);
  add_sums_to_record(r, g.sets[a.set].summary);
  r.release_cause = release_cause(g.sets[a.set].summary, g.policy.world);
  r.timestamp_seconds = a.timestamp_seconds;
  r.scan_seconds = a.scan_seconds;
  r.agreement_seconds = a.agreement_seconds;
  return r;
}

// Sequence 0, the words, the sequence, the head: each visible to the host before the next.
STEPGATE_DEVICE void append_record(StepRecord* records, std::uint64_t* head, const StepRecord& record) {
  static_assert(offsetof(StepRecord, sequence) == 0 && sizeof(StepRecord) % 8 == 0, "copied by words");
  const std::uint64_t index = *head;
  auto* target = reinterpret_cast<std::uint64_t*>(&records[index % kRingRecords]);
  const auto* words = reinterpret_cast<const std::uint64_t*>(&record);
  store_word_system(target, 0);
  __threadfence_system();
  for (std::uint32_t i = 1; i < sizeof record / 8; ++i) store_word_system(target + i, words[i]);
  __threadfence_system();
  store_release_system(target, index + 1);
  store_release_system(head, index + 1);
}

STEPGATE_DEVICE void publish(const PublishArguments& a) {
  alignas(16) __shared__ std::uint64_t staged[kStagedSlots * kSlotWords];
  const RangeSlot* slots = stage_slots(staged, a.slots, a.slot_count);
  if (threadIdx.x == 0) append_record(a.records, a.head, gather_record(a, slots));
}

}  // namespace stepgate::cuda

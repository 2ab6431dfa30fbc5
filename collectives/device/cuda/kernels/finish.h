// The end of a step: decides, moves the scale, then tells the host: records into the ring, slots and
// block into their mirrors. One launch.
//
// Thread: one block of kStepThreads; thread 0 does the arithmetic, thread i gathers the record of set i,
// all copy. Order: what optimizers read (found_inf first of all) is in device memory before anything
// goes to the host's, which is slow. Host threads read meanwhile: they trust a record when its sequence,
// and a table when its stamp, was the same before and after their copy. Device code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/core/records.h"
#include "collectives/device/cuda/kernels/publish.h"
#include "collectives/device/cuda/kernels/step.h"

namespace stepgate::cuda {

inline constexpr std::uint32_t kRecordWords = sizeof(StepRecord) / sizeof(std::uint64_t);
static_assert(offsetof(StepRecord, sequence) == 0 && sizeof(StepRecord) % 8 == 0, "copied by words");

// What the threads of the block share.
struct FinishScratch {
  std::uint64_t slots[kStagedSlots * kSlotWords];
  std::uint64_t records[kMaxSets][kRecordWords];  // StepRecords, which have initialisers
};

STEPGATE_DEVICE void decide_and_move(const FinishArguments& a) {
  GateBlock& g = *a.block;
  if (a.decide_set >= 0) decide_set(g, static_cast<std::uint32_t>(a.decide_set), a.fields);
  update_scale(g);
}

STEPGATE_DEVICE bool publishes(const FinishArguments& a, std::uint32_t set) {
  return (a.publish_sets >> set & 1u) != 0;
}

// The words of record `n` from now on, of which the first comes last.
STEPGATE_DEVICE std::uint64_t* ring_entry(const FinishArguments& a, std::uint64_t index) {
  return reinterpret_cast<std::uint64_t*>(&a.records[index % kRingRecords]);
}

// Sequences and stamp are 0 before a reader can meet the first new word behind them.
STEPGATE_DEVICE void close_for_readers(const FinishArguments& a, std::uint64_t head, std::uint32_t turn) {
  for (std::uint32_t set = 0; set < kMaxSets; ++set) {
    if (publishes(a, set)) store_word_system(ring_entry(a, head++), 0);
  }
  if (a.table_stamps != nullptr) store_word_system(a.table_stamps + turn, 0);
}

STEPGATE_DEVICE void open_for_readers(const FinishArguments& a, std::uint64_t head, std::uint32_t turn) {
  __threadfence_system();
  for (std::uint32_t set = 0; set < kMaxSets; ++set) {
    if (!publishes(a, set)) continue;
    store_release_system(ring_entry(a, head), head + 1);
    ++head;
    store_release_system(a.head, head);
  }
  if (a.table_stamps != nullptr) store_release_system(a.table_stamps + turn, a.block->step);
}

STEPGATE_DEVICE void copy_records(const FinishArguments& a, std::uint64_t head,
                                  const std::uint64_t (*records)[kRecordWords]) {
  for (std::uint32_t set = 0; set < kMaxSets; ++set) {
    if (publishes(a, set)) copy_words_out(ring_entry(a, head++) + 1, records[set] + 1, kRecordWords - 1);
  }
}

STEPGATE_DEVICE void finish(const FinishArguments& a) {
  alignas(16) __shared__ FinishScratch shared;
  if (threadIdx.x == 0) decide_and_move(a);
  const RangeSlot* slots = stage_slots(shared.slots, a.slots, a.slot_count);
  if (a.slot_count > kStagedSlots) __syncthreads();
  const std::uint64_t head = a.publish_sets != 0 ? *a.head : 0;
  const auto turn = static_cast<std::uint32_t>(a.block->step % 2);
  if (threadIdx.x < kMaxSets && publishes(a, threadIdx.x)) {
    *reinterpret_cast<StepRecord*>(shared.records[threadIdx.x]) = gather_record(a, threadIdx.x, slots);
  }
  if (threadIdx.x == 0) close_for_readers(a, head, turn);
  __threadfence_system();
#if !defined(STEPGATE_MUTATE_NO_FINISH_BARRIER)
  __syncthreads();
#endif
  __threadfence_system();
  copy_records(a, head, shared.records);
  if (a.table_stamps != nullptr) copy_words_out(a.table[turn], slots, a.slot_count * kSlotWords);
  if (a.mirror != nullptr) copy_words_out(a.mirror, a.block, kBlockWords);
  __syncthreads();
  if (threadIdx.x == 0) open_for_readers(a, head, turn);
}

}  // namespace stepgate::cuda

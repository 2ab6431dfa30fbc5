// The steps of a gate on the device: thin kernels over the pure functions of gate_block.h, which one
// thread runs; the other threads of the block only fetch.
//
// Thread: one block of kStepThreads; thread 0 does the arithmetic. Order: the stream's. Device code.
#pragma once

#include <cstdint>

#include "collectives/core/gate_block.h"
#include "collectives/device/cuda/kernels/arguments.h"
#include "collectives/device/cuda/kernels/intrinsics.h"

namespace stepgate::cuda {

// Slots that a block fetches together. More of them are read one by one where they are.
inline constexpr std::uint32_t kStagedSlots = 128;
inline constexpr std::uint32_t kSlotWords = sizeof(RangeSlot) / sizeof(std::uint64_t);
static_assert(sizeof(RangeSlot) % sizeof(std::uint64_t) == 0, "slots are copied by 64-bit words");

// Copies the slots into shared memory (kStagedSlots * kSlotWords words) with all threads at once, for
// one thread alone would wait for each of them. Ends with a barrier.
STEPGATE_DEVICE const RangeSlot* stage_slots(std::uint64_t* staged, const RangeSlot* slots,
                                             std::uint32_t count) {
  if (count > kStagedSlots) return slots;
  const auto* words = reinterpret_cast<const std::uint64_t*>(slots);
  for (std::uint32_t i = threadIdx.x; i < count * kSlotWords; i += blockDim.x) staged[i] = words[i];
#if !defined(STEPGATE_MUTATE_NO_SYNCTHREADS)
  __syncthreads();
#endif
  return reinterpret_cast<const RangeSlot*>(staged);
}

// Words that the host reads meanwhile, with all threads of the block.
STEPGATE_DEVICE void copy_words_out(void* to, const void* from, std::uint32_t words) {
  auto* target = static_cast<std::uint64_t*>(to);
  const auto* source = static_cast<const std::uint64_t*>(from);
  for (std::uint32_t i = threadIdx.x; i < words; i += blockDim.x) store_word_system(target + i, source[i]);
}

inline constexpr std::uint32_t kBlockWords = sizeof(GateBlock) / sizeof(std::uint64_t);
static_assert(sizeof(GateBlock) % sizeof(std::uint64_t) == 0, "the block is copied by 64-bit words");

STEPGATE_DEVICE void begin(const BeginArguments& a) {
  if (threadIdx.x == 0) begin_step(*a.block);
  for (std::uint32_t i = threadIdx.x; i < a.slot_count; i += blockDim.x) clear_local(a.slots + i, 1);
  if (a.mirror == nullptr) return;
#if !defined(STEPGATE_MUTATE_NO_BEGIN_BARRIER)
  __syncthreads();
#endif
  copy_words_out(a.mirror, a.block, kBlockWords);
}

STEPGATE_DEVICE void keep_summary(GateBlock& g, std::uint32_t set, const double* fields) {
  double* kept = g.sets[set].summary;  // the step's record tells the sums
  for (int i = 0; i < kSummaryFields; ++i) kept[i] = fields[i];
}

STEPGATE_DEVICE void summarize(const SummarizeArguments& a) {
  alignas(16) __shared__ std::uint64_t staged[kStagedSlots * kSlotWords];
  const RangeSlot* slots = stage_slots(staged, a.slots, a.slot_count);
  if (threadIdx.x != 0) return;
  a.block->attributing = a.attributing;
  if (a.veto != 0) a.block->veto = 1;
  summarize_set(*a.block, a.set, slots, a.slot_count, a.fields);
  keep_summary(*a.block, a.set, a.fields);
}

}  // namespace stepgate::cuda

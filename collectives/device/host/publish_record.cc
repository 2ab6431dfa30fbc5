#include "collectives/device/host/publish_record.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stepgate::device::host {
namespace {

constexpr std::size_t kRecordWords = sizeof(StepRecord) / sizeof(std::uint64_t);
static_assert(sizeof(StepRecord) % sizeof(std::uint64_t) == 0, "append_record copies 64-bit words");
static_assert(offsetof(StepRecord, sequence) == 0, "append_record stores the first word last");

// A summed count; a summary that never came holds zeros.
std::uint64_t count_of(double field) {
  return field > 0 && field < 0x1p63 ? static_cast<std::uint64_t>(field) : 0;
}

void add_slots(StepRecord& r, std::uint32_t set, const RangeSlot* slots, std::uint32_t slot_count) {
  PairwiseSum squares;
  for (std::uint32_t i = 0; i < slot_count; ++i) {
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

void add_sums(StepRecord& r, const double* summary) {
  r.sum_elements = count_of(summary[kSumElements]);
  r.sum_inf = count_of(summary[kSumInf]);
  r.sum_nan = count_of(summary[kSumNan]);
  r.sum_local_inf = count_of(summary[kSumLocalInf]);
  r.sum_local_nan = count_of(summary[kSumLocalNan]);
}

void store_word(void* record, std::size_t index, std::uint64_t word, std::memory_order order) {
  auto& target = static_cast<std::uint64_t*>(record)[index];
  std::atomic_ref<std::uint64_t>(target).store(word, order);
}

}  // namespace

StepRecord gather_record(const GateBlock& g, std::uint32_t set, const RangeSlot* slots,
                         std::uint32_t slot_count, const RecordExtras& extras) noexcept {
  StepRecord r;
  r.step = g.step;
  r.set = set;
  r.rank = g.rank;
  r.decision = g.sets[set].decision;
  r.scaler = g.scaler;
  add_slots(r, set, slots, slot_count);
  add_sums(r, g.sets[set].summary);
  r.release_cause = release_cause(g.sets[set].summary, g.policy.world);
  r.timestamp_seconds = extras.timestamp_seconds;
  r.scan_seconds = extras.scan_seconds;
  r.agreement_seconds = extras.agreement_seconds;
  return r;
}

void append_record(RingView ring, const StepRecord& record) noexcept {
  std::atomic_ref<std::uint64_t> head(*ring.head);
  const std::uint64_t index = head.load(std::memory_order_relaxed);
  void* target = &ring.records[index % kRingRecords];
  std::uint64_t words[kRecordWords];
  std::memcpy(words, &record, sizeof words);

  // 0 first: a reader that meets the old sequence afterwards has copied none of the new words.
  store_word(target, 0, 0, std::memory_order_relaxed);
  for (std::size_t i = 1; i < kRecordWords; ++i) store_word(target, i, words[i], std::memory_order_release);
  store_word(target, 0, index + 1, std::memory_order_release);
  head.store(index + 1, std::memory_order_release);
}

void write_table(const TableView& table, std::uint64_t step, const RangeSlot* slots,
                 std::uint32_t slot_count) noexcept {
  const std::size_t turn = step % 2;
  const std::atomic_ref<std::uint64_t> stamp(table.stamps[turn]);
  stamp.store(0, std::memory_order_relaxed);
  const auto* words = reinterpret_cast<const std::uint64_t*>(slots);
  for (std::size_t i = 0; i < slot_count * sizeof(RangeSlot) / sizeof(std::uint64_t); ++i) {
    store_word(table.slots[turn], i, words[i], std::memory_order_release);
  }
  stamp.store(step, std::memory_order_release);
}

}  // namespace stepgate::device::host

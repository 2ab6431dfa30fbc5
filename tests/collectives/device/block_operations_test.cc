// HostDevice beyond scan and apply: memory, copies, the block's steps, the ring of records.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/device/host/host_device.h"

namespace stepgate::test {
namespace {

using device::Code;
using device::HostDevice;
using device::Memory;
using device::RingView;

TEST(HostMemory, IsZeroedAlignedAndReleased) {
  HostDevice host;
  for (const std::size_t bytes : {0, 1, 255, 256, 257, 100000}) {
    for (const Memory kind : {Memory::kDevice, Memory::kMapped}) {
      auto* p = static_cast<unsigned char*>(host.allocate(bytes, kind));
      ASSERT_NE(p, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 256, 0u);
      for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(p[i], 0);
      std::memset(p, 0xff, bytes);
      host.release(p, kind);
    }
  }
  host.release(nullptr, Memory::kDevice);
}

TEST(HostMemory, SaysWhyThereIsNone) {
  HostDevice host;
  EXPECT_EQ(host.allocate(~std::size_t{0}, Memory::kDevice), nullptr);
  EXPECT_NE(std::string(host.last_error()).find("18446744073709551615"), std::string::npos)
      << host.last_error();
}

TEST(HostMemory, Copies) {
  HostDevice host;
  const char text[] = "gradient";
  char to[sizeof text] = {};
  EXPECT_EQ(host.copy_in(nullptr, to, text, sizeof text), Code::kOk);
  EXPECT_STREQ(to, text);
  char back[sizeof text] = {};
  EXPECT_EQ(host.copy_out(nullptr, back, to, sizeof text), Code::kOk);
  EXPECT_STREQ(back, text);
  EXPECT_EQ(host.copy_in(nullptr, nullptr, text, 1), Code::kInvalid);
  EXPECT_EQ(host.copy_out(nullptr, nullptr, nullptr, 0), Code::kOk);
  EXPECT_STREQ(host.name(), "host");
  EXPECT_EQ(host.synchronize(nullptr), Code::kOk);
}

std::unique_ptr<GateBlock> fresh_block() {
  auto g = std::make_unique<GateBlock>();
  g->params = default_params(ScalerRule::kTorch);
  g->scaler = initial_state(g->params);
  g->rank = 0;
  return g;
}

RangeSlot slot_of(double squares, std::uint64_t nan, std::uint32_t set = 0) {
  RangeSlot s;
  s.reduced.sum_squares = squares;
  s.reduced.elements = 10;
  s.reduced.nan = nan;
  s.local.nan = nan;
  s.set = set;
  s.largest_storable = largest_finite(ElementType::kFp32);
  return s;
}

// What a step needs beside its slots.
struct Steps {
  HostDevice host;
  std::unique_ptr<GateBlock> g = fresh_block();
  double fields[kSummaryFields] = {};

  Code begin(std::vector<RangeSlot>& slots, GateBlock* mirror = nullptr) {
    return host.begin_step(nullptr,
                           {g.get(), slots.data(), static_cast<std::uint32_t>(slots.size()), mirror});
  }
  Code summarize(const std::vector<RangeSlot>& slots, bool attributing = false, bool veto = false) {
    return host.summarize(nullptr, {g.get(), 0, slots.data(), static_cast<std::uint32_t>(slots.size()),
                                    fields, attributing, veto});
  }
  device::FinishStep finish(const std::vector<RangeSlot>& slots) {
    device::FinishStep job;
    job.g = g.get();
    job.slots = slots.data();
    job.slot_count = static_cast<std::uint32_t>(slots.size());
    return job;
  }
};

TEST(BlockOperations, OneStepFromSlotsToOutputs) {
  Steps s;
  std::vector<RangeSlot> slots = {slot_of(65536.0 * 65536 * 9, 0), slot_of(65536.0 * 65536 * 16, 0)};
  ASSERT_EQ(s.begin(slots), Code::kOk);
  ASSERT_EQ(s.summarize(slots), Code::kOk);
  EXPECT_EQ(s.g->sets[0].outputs.found_inf, 1.0f);
  device::FinishStep finish = s.finish(slots);
  finish.decide_set = 0;
  finish.fields = s.fields;
  ASSERT_EQ(s.host.finish_step(nullptr, finish), Code::kOk);
  EXPECT_EQ(s.g->sets[0].outputs.found_inf, 0.0f);
  EXPECT_EQ(s.g->sets[0].outputs.norm, 5.0f);
  EXPECT_EQ(s.g->sets[0].outputs.grad_scale, 65536.0f);
  EXPECT_EQ(s.g->scaler.growth_tracker, 1);
  EXPECT_EQ(s.g->sets[0].summary[kSumElements], 20.0);
  ASSERT_EQ(s.host.mark_applied(nullptr, s.g.get(), 0), Code::kOk);
  EXPECT_EQ(s.g->sets[0].outputs.grad_scale, 1.0f);
  EXPECT_EQ(s.g->sets[0].outputs.multiplier, 1.0f);
}

TEST(BlockOperations, BeginClearsLocalsAndMirrors) {
  Steps s;
  std::vector<RangeSlot> slots = {slot_of(4, 2), slot_of(5, 1)};
  slots[0].first_bad_segment = 3;
  slots[1].local_step = 8;
  GateBlock mirror;
  ASSERT_EQ(s.begin(slots, &mirror), Code::kOk);
  for (const RangeSlot& slot : slots) {
    EXPECT_EQ(slot.local.nan, 0u);
    EXPECT_EQ(slot.first_bad_segment, -1);
    EXPECT_EQ(slot.reduced.elements, 10u) << "only a scan replaces these";
  }
  EXPECT_EQ(slots[1].local_step, 8u);
  EXPECT_EQ(mirror.step, 1u);
  EXPECT_EQ(std::memcmp(&mirror, s.g.get(), sizeof mirror), 0);
}

TEST(BlockOperations, SummarizeTakesAttributionAndVeto) {
  for (const bool attributing : {false, true}) {
    Steps s;
    std::vector<RangeSlot> slots = {slot_of(1, 0)};
    s.begin(slots);
    s.summarize(slots, attributing, !attributing);
    EXPECT_EQ(s.fields[kSumAttributing], attributing ? 1.0 : 0.0);
    EXPECT_EQ(s.fields[kSumVeto], attributing ? 0.0 : 1.0);
    EXPECT_EQ(std::memcmp(s.fields, s.g->sets[0].summary, sizeof s.fields), 0);
  }
}

TEST(BlockOperations, VetoSkipsAndLeavesTheScale) {
  Steps s;
  std::vector<RangeSlot> slots = {slot_of(1, 0)};
  s.begin(slots);
  ASSERT_EQ(s.host.veto(nullptr, s.g.get()), Code::kOk);
  s.summarize(slots);
  s.host.decide(nullptr, s.g.get(), 0, s.fields);
  s.host.finish_step(nullptr, s.finish(slots));
  EXPECT_EQ(s.g->sets[0].decision.reason, Reason::kVeto);
  EXPECT_EQ(s.g->scaler.scale, 65536.0);
}

TEST(BlockOperations, RefuseNullAndUnknownSets) {
  Steps s;
  HostDevice& host = s.host;
  GateBlock* g = s.g.get();
  EXPECT_EQ(host.begin_step(nullptr, {}), Code::kInvalid);
  EXPECT_EQ(host.begin_step(nullptr, {.g = g, .slot_count = 1}), Code::kInvalid);
  EXPECT_EQ(host.summarize(nullptr, {.g = g, .set = kMaxSets, .fields = s.fields}), Code::kInvalid);
  EXPECT_NE(std::string(host.last_error()).find("set 8; allowed: 0 to 7"), std::string::npos)
      << host.last_error();
  EXPECT_EQ(host.summarize(nullptr, {.g = g, .slot_count = 1, .fields = s.fields}), Code::kInvalid);
  EXPECT_EQ(host.summarize(nullptr, {.g = g}), Code::kInvalid);
  EXPECT_EQ(host.decide(nullptr, g, 0, nullptr), Code::kInvalid);
  EXPECT_EQ(host.veto(nullptr, nullptr), Code::kInvalid);
  EXPECT_EQ(host.mark_applied(nullptr, g, 9), Code::kInvalid);
  device::FinishStep finish;
  EXPECT_EQ(host.finish_step(nullptr, finish), Code::kInvalid);
  finish.g = g;
  finish.publish_sets = 1;
  EXPECT_EQ(host.finish_step(nullptr, finish), Code::kInvalid) << "no ring";
  finish.publish_sets = 0;
  finish.decide_set = 0;
  EXPECT_EQ(host.finish_step(nullptr, finish), Code::kInvalid) << "no fields";
  finish.decide_set = 8;
  finish.fields = s.fields;
  EXPECT_EQ(host.finish_step(nullptr, finish), Code::kInvalid);
}

// Two places by turns; the step's own place carries its stamp.
TEST(Table, TurnsWithTheStep) {
  Steps s;
  std::vector<RangeSlot> slots = {slot_of(4, 0), slot_of(5, 0)};
  std::vector<RangeSlot> places[2] = {std::vector<RangeSlot>(2), std::vector<RangeSlot>(2)};
  std::uint64_t stamps[2] = {};
  GateBlock mirror;
  for (std::uint64_t step = 1; step <= 4; ++step) {
    s.begin(slots);
    slots[1].reduced.zeros = step;
    device::FinishStep finish = s.finish(slots);
    finish.table = {{places[0].data(), places[1].data()}, stamps};
    finish.mirror = &mirror;
    ASSERT_EQ(s.host.finish_step(nullptr, finish), Code::kOk);
    EXPECT_EQ(stamps[step % 2], step);
    EXPECT_EQ(stamps[1 - step % 2], step - 1);
    EXPECT_EQ(std::memcmp(places[step % 2].data(), slots.data(), 2 * sizeof(RangeSlot)), 0);
    EXPECT_EQ(places[1 - step % 2][1].reduced.zeros, step - 1);
    EXPECT_EQ(std::memcmp(&mirror, s.g.get(), sizeof mirror), 0);
  }
}

struct Ring {
  HostDevice host;
  StepRecord* records =
      static_cast<StepRecord*>(host.allocate(sizeof(StepRecord) * kRingRecords, Memory::kMapped));
  std::uint64_t* head = static_cast<std::uint64_t*>(host.allocate(sizeof(std::uint64_t), Memory::kMapped));
  ~Ring() {
    host.release(records, Memory::kMapped);
    host.release(head, Memory::kMapped);
  }
  RingView view() const { return {records, head}; }
};

TEST(Publish, FillsTheRecords) {
  Ring ring;
  Steps s;
  s.g->rank = 3;
  std::vector<RangeSlot> slots = {slot_of(4, 0), slot_of(5, 0), slot_of(7, 0, 1)};
  s.begin(slots);
  slots[0].reduced.nan = slots[0].local.nan = 2;  // as scans of the step leave them
  slots[2].reduced.nan = slots[2].local.nan = 1;
  s.summarize(slots);
  device::FinishStep finish = s.finish(slots);
  finish.decide_set = 0;
  finish.fields = s.fields;
  finish.publish_sets = 3;
  finish.ring = ring.view();
  finish.extras = {1.5, 0.25, 0.125};
  ASSERT_EQ(ring.host.finish_step(nullptr, finish), Code::kOk);
  const StepRecord& r = ring.records[0];
  EXPECT_EQ(*ring.head, 2u);
  EXPECT_EQ(r.sequence, 1u);
  EXPECT_EQ(r.step, 1u);
  EXPECT_EQ(r.set, 0u);
  EXPECT_EQ(r.rank, 3u);
  EXPECT_EQ(r.decision.reason, Reason::kNan);
  EXPECT_EQ(r.scaler.scale, 32768.0);
  EXPECT_EQ(r.local_sum.elements, 20u);
  EXPECT_EQ(r.local_sum.nan, 2u);
  EXPECT_EQ(r.local_sum.sum_squares, 9.0);
  EXPECT_EQ(r.sum_elements, 20u);
  EXPECT_EQ(r.sum_nan, 2u);
  EXPECT_EQ(r.sum_local_nan, 2u);
  EXPECT_EQ(r.local_nan, 2u);
  EXPECT_EQ(r.timestamp_seconds, 1.5);
  EXPECT_EQ(r.scan_seconds, 0.25);
  EXPECT_EQ(r.agreement_seconds, 0.125);
  EXPECT_EQ(ring.records[1].set, 1u);
  EXPECT_EQ(ring.records[1].sequence, 2u);
  EXPECT_EQ(ring.records[1].local_sum.nan, 1u);
}

TEST(Publish, WrapsAround) {
  Ring ring;
  auto g = fresh_block();
  device::FinishStep finish;
  finish.g = g.get();
  finish.publish_sets = 2;
  finish.ring = ring.view();
  for (std::uint64_t step = 1; step <= kRingRecords + 3; ++step) {
    g->step = step;
    ASSERT_EQ(ring.host.finish_step(nullptr, finish), Code::kOk);
  }
  EXPECT_EQ(*ring.head, kRingRecords + 3);
  EXPECT_EQ(ring.records[2].sequence, kRingRecords + 3);
  EXPECT_EQ(ring.records[2].step, kRingRecords + 3);
  EXPECT_EQ(ring.records[2].set, 1u);
  EXPECT_EQ(ring.records[3].sequence, 4u);
}

using RecordWords = std::uint64_t[sizeof(StepRecord) / sizeof(std::uint64_t)];

std::uint64_t load_word(StepRecord* r, std::size_t i, std::memory_order order) {
  return std::atomic_ref<std::uint64_t>(reinterpret_cast<std::uint64_t*>(r)[i]).load(order);
}

// The reader's half of records.h; false when the copy must be dropped.
bool read_record(StepRecord* from, StepRecord& to) {
  RecordWords words;
  words[0] = load_word(from, 0, std::memory_order_acquire);
  for (std::size_t i = 1; i < std::size(words); ++i) words[i] = load_word(from, i, std::memory_order_acquire);
  if (load_word(from, 0, std::memory_order_relaxed) != words[0]) return false;
  std::memcpy(static_cast<void*>(&to), words, sizeof to);
  return to.sequence != 0;
}

// One slot is rewritten as fast as it goes while another thread copies it: no kept copy mixes two.
TEST(Publish, ReaderNeverKeepsATornRecord) {
  Ring ring;
  std::atomic<bool> done = false;
  std::atomic<std::uint64_t> kept = 0;
  std::thread reader([&] {
    while (!done.load()) {
      StepRecord r;
      if (!read_record(&ring.records[0], r)) continue;
      kept.fetch_add(1);
      ASSERT_EQ(r.step, r.sequence);
      ASSERT_EQ(r.scaler.iteration, static_cast<std::int64_t>(r.sequence));
      ASSERT_EQ(r.agreement_seconds, static_cast<double>(r.sequence));
    }
  });
  auto g = fresh_block();
  device::FinishStep finish;
  finish.g = g.get();
  finish.publish_sets = 1;
  finish.ring = ring.view();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  std::uint64_t rounds = 0;
  while ((rounds < 1000000 || kept.load() < 100) && std::chrono::steady_clock::now() < deadline) {
    *ring.head = rounds++ * kRingRecords;
    const std::uint64_t sequence = *ring.head + 1;
    g->step = sequence;
    g->scaler.iteration = static_cast<std::int64_t>(sequence);
    finish.extras.agreement_seconds = static_cast<double>(sequence);
    ring.host.finish_step(nullptr, finish);
  }
  done.store(true);
  reader.join();
  EXPECT_GE(kept.load(), 100u);
}

}  // namespace
}  // namespace stepgate::test

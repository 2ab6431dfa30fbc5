// HostDevice beyond scan and apply: memory, copies, the block's steps, the ring of records.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

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

TEST(BlockOperations, OneStepFromSlotsToOutputs) {
  HostDevice host;
  auto g = fresh_block();
  const RangeSlot slots[] = {slot_of(65536.0 * 65536 * 9, 0), slot_of(65536.0 * 65536 * 16, 0)};
  double fields[kSummaryFields];
  ASSERT_EQ(host.begin_step(nullptr, g.get()), Code::kOk);
  ASSERT_EQ(host.summarize(nullptr, g.get(), 0, slots, 2, fields), Code::kOk);
  EXPECT_EQ(g->sets[0].outputs.found_inf, 1.0f);
  ASSERT_EQ(host.decide(nullptr, g.get(), 0, fields), Code::kOk);
  ASSERT_EQ(host.update_scale(nullptr, g.get()), Code::kOk);
  EXPECT_EQ(g->sets[0].outputs.found_inf, 0.0f);
  EXPECT_EQ(g->sets[0].outputs.norm, 5.0f);
  EXPECT_EQ(g->sets[0].outputs.grad_scale, 65536.0f);
  EXPECT_EQ(g->scaler.growth_tracker, 1);
  EXPECT_EQ(g->sets[0].summary[kSumElements], 20.0);
  ASSERT_EQ(host.mark_applied(nullptr, g.get(), 0), Code::kOk);
  EXPECT_EQ(g->sets[0].outputs.grad_scale, 1.0f);
  EXPECT_EQ(g->sets[0].outputs.multiplier, 1.0f);
}

TEST(BlockOperations, VetoSkipsAndLeavesTheScale) {
  HostDevice host;
  auto g = fresh_block();
  const RangeSlot slot = slot_of(1, 0);
  double fields[kSummaryFields];
  host.begin_step(nullptr, g.get());
  ASSERT_EQ(host.veto(nullptr, g.get()), Code::kOk);
  host.summarize(nullptr, g.get(), 0, &slot, 1, fields);
  host.decide(nullptr, g.get(), 0, fields);
  host.update_scale(nullptr, g.get());
  EXPECT_EQ(g->sets[0].decision.reason, Reason::kVeto);
  EXPECT_EQ(g->scaler.scale, 65536.0);
}

TEST(BlockOperations, RefuseNullAndUnknownSets) {
  HostDevice host;
  auto g = fresh_block();
  double fields[kSummaryFields] = {};
  EXPECT_EQ(host.begin_step(nullptr, nullptr), Code::kInvalid);
  EXPECT_EQ(host.summarize(nullptr, g.get(), kMaxSets, nullptr, 0, fields), Code::kInvalid);
  EXPECT_NE(std::string(host.last_error()).find("set 8; allowed: 0 to 7"), std::string::npos)
      << host.last_error();
  EXPECT_EQ(host.summarize(nullptr, g.get(), 0, nullptr, 1, fields), Code::kInvalid);
  EXPECT_EQ(host.summarize(nullptr, g.get(), 0, nullptr, 0, nullptr), Code::kInvalid);
  EXPECT_EQ(host.decide(nullptr, g.get(), 0, nullptr), Code::kInvalid);
  EXPECT_EQ(host.veto(nullptr, nullptr), Code::kInvalid);
  EXPECT_EQ(host.mark_applied(nullptr, g.get(), 9), Code::kInvalid);
  EXPECT_EQ(host.update_scale(nullptr, nullptr), Code::kInvalid);
  EXPECT_EQ(host.publish(nullptr, g.get(), 0, nullptr, 0, {}, {}), Code::kInvalid);
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

TEST(Publish, FillsTheRecord) {
  Ring ring;
  auto g = fresh_block();
  g->rank = 3;
  const RangeSlot slots[] = {slot_of(4, 2), slot_of(5, 0), slot_of(7, 1, 1)};
  double fields[kSummaryFields];
  ring.host.begin_step(nullptr, g.get());
  ring.host.summarize(nullptr, g.get(), 0, slots, 3, fields);
  ring.host.decide(nullptr, g.get(), 0, fields);
  ring.host.update_scale(nullptr, g.get());
  ASSERT_EQ(ring.host.publish(nullptr, g.get(), 0, slots, 3, ring.view(), {1.5, 0.25, 0.125}), Code::kOk);
  const StepRecord& r = ring.records[0];
  EXPECT_EQ(*ring.head, 1u);
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
}

TEST(Publish, WrapsAround) {
  Ring ring;
  auto g = fresh_block();
  for (std::uint64_t step = 1; step <= kRingRecords + 3; ++step) {
    g->step = step;
    ASSERT_EQ(ring.host.publish(nullptr, g.get(), 1, nullptr, 0, ring.view(), {}), Code::kOk);
  }
  EXPECT_EQ(*ring.head, kRingRecords + 3);
  EXPECT_EQ(ring.records[2].sequence, kRingRecords + 3);
  EXPECT_EQ(ring.records[2].step, kRingRecords + 3);
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
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  std::uint64_t rounds = 0;
  while ((rounds < 1000000 || kept.load() < 100) && std::chrono::steady_clock::now() < deadline) {
    *ring.head = rounds++ * kRingRecords;
    const std::uint64_t sequence = *ring.head + 1;
    g->step = sequence;
    g->scaler.iteration = static_cast<std::int64_t>(sequence);
    ring.host.publish(nullptr, g.get(), 0, nullptr, 0, ring.view(), {0, 0, static_cast<double>(sequence)});
  }
  done.store(true);
  reader.join();
  EXPECT_GE(kept.load(), 100u);
}

}  // namespace
}  // namespace stepgate::test

// The step kernels against HostDevice: whole steps, the block and the ring equal byte for byte.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>

#include "collectives/device/host/host_device.h"
#include "tests/collectives/device/scan_oracle.h"
#include "tests/collectives/device_cuda/kernel_runs.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

// Memory that starts as zeros, padding included, so that bytes can be compared.
template <class T>
struct Zeroed {
  Zeroed() : memory(std::make_unique<unsigned char[]>(sizeof(T))), value(new (memory.get()) T{}) {}
  std::unique_ptr<unsigned char[]> memory;
  T* value;
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bits must agree, padding too
  bool operator==(const Zeroed& other) const { return std::memcmp(value, other.value, sizeof(T)) == 0; }
};

struct Ring {
  std::vector<StepRecord> records = std::vector<StepRecord>(kRingRecords);
  std::uint64_t head = 0;
};

constexpr std::size_t kTableSlots = 300;

struct Table {
  std::vector<RangeSlot> slots[2] = {std::vector<RangeSlot>(kTableSlots),
                                     std::vector<RangeSlot>(kTableSlots)};
  std::uint64_t stamps[2] = {};
};

// One rank's state, driven twice: by the host's functions, and by kernels.
struct Side {
  Zeroed<GateBlock> block, mirror;
  double fields[kSummaryFields] = {};
  std::vector<RangeSlot> slots;
  Ring ring;
  Table table;
};

class StepKernels : public testing::Test {
 protected:
  StepKernels() {
    for (Side* s : {&host_, &kernel_}) {
      GateBlock& g = *s->block.value;
      g.params = default_params(ScalerRule::kStepgate);
      g.params.interval = 3;
      g.scaler = initial_state(g.params);
      g.policy.max_norm = 1.5;
      g.enforcing = 1;
    }
  }

  GateBlock* block(Side& s) { return s.block.value; }

  std::vector<RangeSlot> random_slots(std::size_t n, bool bad) {
    std::vector<RangeSlot> slots(n);
    for (RangeSlot& s : slots) {
      s.reduced.sum_squares = std::ldexp(static_cast<double>(random_()), -40);
      s.reduced.abs_max = std::ldexp(static_cast<double>(random_()), -60);
      s.reduced.elements = random_() % 100000;
      s.reduced.zeros = random_() % 100;
      s.reduced.subnormals = random_() % 100;
      s.reduced.overranges = random_() % 3;
      s.factor = 1.0 / static_cast<double>(1 + random_() % 8);
      s.largest_storable = 65504;
      s.counted = random_() % 4 != 0;
      s.live = random_() % 5 != 0;
      s.set = random_() % 3 == 0 ? 1 : 0;
      if (bad && random_() % 2 == 0) s.reduced.inf = s.local.nan = 1;
      if (random_() % 9 == 0) s.reduced_step = random_() % 4;
      if (random_() % 9 == 0) s.local_step = random_() % 4;
      s.first_bad_segment = static_cast<std::int32_t>(random_() % 5) - 1;
    }
    return slots;
  }

  void expect_equal(const char* after) {
    EXPECT_TRUE(host_.block == kernel_.block) << "block after " << after;
    EXPECT_TRUE(host_.mirror == kernel_.mirror) << "mirror after " << after;
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bits must agree
    EXPECT_EQ(std::memcmp(host_.fields, kernel_.fields, sizeof host_.fields), 0) << "summary after " << after;
    EXPECT_EQ(host_.ring.head, kernel_.ring.head);
    expect_same(host_.ring.records, kernel_.ring.records, "ring", after);
    expect_same(host_.slots, kernel_.slots, "slots", after);
    for (int turn = 0; turn < 2; ++turn) {
      expect_same(host_.table.slots[turn], kernel_.table.slots[turn], "table", after);
      EXPECT_EQ(host_.table.stamps[turn], kernel_.table.stamps[turn]) << turn << " after " << after;
    }
  }
  template <class T>
  void expect_same(const std::vector<T>& a, const std::vector<T>& b, const char* what, const char* after) {
    ASSERT_EQ(a.size(), b.size());
    if (a.empty()) return;
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(T)), 0) << what << " after " << after;
  }
  void take(const std::vector<RangeSlot>& slots) { host_.slots = kernel_.slots = slots; }
  std::uint32_t count(const Side& s) const { return static_cast<std::uint32_t>(s.slots.size()); }

  void begin_step(bool mirrored = true) {
    GateBlock* const mirrors[] = {mirrored ? host_.mirror.value : nullptr,
                                  mirrored ? kernel_.mirror.value : nullptr};
    ASSERT_EQ(device_.begin_step(nullptr, {block(host_), host_.slots.data(), count(host_), mirrors[0]}),
              device::Code::kOk);
    run_kernel("stepgate_begin_step", 1, 64,
               cuda::BeginArguments{block(kernel_), kernel_.slots.data(), mirrors[1], count(kernel_), 0});
    expect_equal("begin_step");
  }
  void summarize(std::uint32_t set, bool attributing = true, bool veto = false) {
    device_.summarize(nullptr,
                      {block(host_), set, host_.slots.data(), count(host_), host_.fields, attributing, veto});
    run_kernel("stepgate_summarize", 1, 64,
               cuda::SummarizeArguments{block(kernel_), kernel_.slots.data(), kernel_.fields, set,
                                        count(kernel_), attributing, veto});
    expect_equal("summarize");
  }
  void decide(std::uint32_t set) {
    device_.decide(nullptr, block(host_), set, host_.fields);
    run_kernel("stepgate_decide", 1, 32, cuda::DecideArguments{block(kernel_), kernel_.fields, set, 0});
    expect_equal("decide");
  }
  void mark_applied(std::uint32_t set) {
    device_.mark_applied(nullptr, block(host_), set);
    run_kernel("stepgate_mark_applied", 1, 32, cuda::BlockArguments{block(kernel_), set, 0});
    expect_equal("mark_applied");
  }
  void finish(std::int32_t decided, std::uint32_t published, bool shown = true) {
    const auto table = [shown](Side& s) {
      return device::TableView{{s.table.slots[0].data(), s.table.slots[1].data()},
                               shown ? s.table.stamps : nullptr};
    };
    const device::FinishStep job{.g = block(host_),
                                 .decide_set = decided,
                                 .fields = host_.fields,
                                 .publish_sets = published,
                                 .slots = host_.slots.data(),
                                 .slot_count = count(host_),
                                 .ring = {host_.ring.records.data(), &host_.ring.head},
                                 .extras = {1.5, 0.25, 0.125},
                                 .table = table(host_),
                                 .mirror = shown ? host_.mirror.value : nullptr};
    ASSERT_EQ(device_.finish_step(nullptr, job), device::Code::kOk);
    const device::TableView t = table(kernel_);
    run_kernel("stepgate_finish_step", 1, 128,
               cuda::FinishArguments{block(kernel_),
                                     kernel_.fields,
                                     kernel_.slots.data(),
                                     kernel_.ring.records.data(),
                                     &kernel_.ring.head,
                                     {t.slots[0], t.slots[1]},
                                     t.stamps,
                                     shown ? kernel_.mirror.value : nullptr,
                                     1.5,
                                     0.25,
                                     0.125,
                                     decided,
                                     published,
                                     count(kernel_),
                                     0});
    expect_equal("finish_step");
  }

  std::mt19937_64 random_{test_seed()};
  device::HostDevice device_;
  Side host_, kernel_;
};

// Few slots lie in shared memory, many are read in place: both, around the limit.
TEST_F(StepKernels, StepsOfAnySize) {
  int applied = 0, skipped = 0;
  for (const std::size_t n : {0, 5, 128, 129, 300}) {
    for (const bool bad : {false, true}) {
      SCOPED_TRACE(n);
      take(random_slots(n, bad));
      begin_step();
      for (const std::uint32_t set : {0u, 1u}) {
        summarize(set, n % 2 == 0);
        decide(set);
        ++(block(host_)->sets[set].decision.skip ? skipped : applied);
        mark_applied(set);
      }
      finish(-1, 3);
    }
  }
  EXPECT_GT(applied, 3);
  EXPECT_GT(skipped, 3);
}

// The decision, the scale, several records, the table and the block in one launch.
TEST_F(StepKernels, FinishDoesItAll) {
  for (const std::uint32_t published : {0u, 1u, 0x81u, 0xffu}) {
    for (const bool shown : {true, false}) {
      SCOPED_TRACE(published);
      take(random_slots(40, false));
      begin_step(shown);
      summarize(1);
      summarize(0);
      decide(1);
      summarize(0);
      finish(0, published, shown);
    }
  }
  EXPECT_EQ(kernel_.ring.head, 2u * (0 + 1 + 2 + 8));
  EXPECT_EQ(kernel_.table.stamps[1], 7u);
  EXPECT_EQ(kernel_.table.stamps[0], 0u);
}

// A slot of another step vetoes, and takes the attribution away.
TEST_F(StepKernels, StampsOfAnotherStep) {
  for (int round = 0; round < 12; ++round) {
    std::vector<RangeSlot> slots = random_slots(3, round % 3 == 0);
    for (RangeSlot& s : slots) {
      s.reduced_step = random_() % 4 == 0 ? kNeverScanned : block(host_)->step + 1;
      s.local_step = random_() % 4 == 0 ? block(host_)->step : block(host_)->step + 1;
    }
    take(slots);
    begin_step();
    summarize(0);
    finish(0, 1);
  }
}

TEST_F(StepKernels, ApplyModeCountsProductsThatOverflow) {
  for (Side* s : {&host_, &kernel_}) {
    block(*s)->policy.unscale = UnscaleMode::kApply;
    block(*s)->scaler.scale = 0x1p-10;
  }
  std::vector<RangeSlot> slots = random_slots(3, false);
  for (RangeSlot& s : slots) s.live = 1, s.set = 0, s.reduced.abs_max = 1000, s.reduced_step = 0;
  take(slots);
  begin_step();
  summarize(0);
  decide(0);
  EXPECT_EQ(block(host_)->sets[0].decision.reason, Reason::kInf);
}

TEST_F(StepKernels, VetoSkipsAndIsSeen) {
  for (const bool asked : {false, true}) {  // by its own operation, and by summarize
    std::vector<RangeSlot> slots = random_slots(4, false);
    for (RangeSlot& s : slots) s.reduced_step = 0;
    take(slots);
    begin_step();
    if (!asked) {
      device_.veto(nullptr, block(host_));
      run_kernel("stepgate_veto", 1, 32, cuda::BlockArguments{block(kernel_), 0, 0});
      expect_equal("veto");
    }
    summarize(0, true, asked);
    decide(0);
    EXPECT_EQ(block(kernel_)->sets[0].decision.reason, Reason::kVeto);
    EXPECT_EQ(block(kernel_)->sets[0].outputs.found_inf, 1.0f);
  }
}

// Ranks that disagree, sums of another step, too few contributors: whatever decide may meet.
TEST_F(StepKernels, StrangeSums) {
  for (Side* s : {&host_, &kernel_}) block(*s)->policy.world = 4;
  for (int round = 0; round < 21; ++round) {
    SCOPED_TRACE(round);
    take(random_slots(6, round % 3 == 0));
    begin_step();
    summarize(0);
    for (int i = 0; i < kSummaryFields; ++i) {
      const double factor = round % 2 == 0 ? 4 : 1 + static_cast<double>(random_() % 5);
      host_.fields[i] = kernel_.fields[i] = host_.fields[i] * factor;
    }
    if (round % 7 == 6) host_.fields[kSumStep] = kernel_.fields[kSumStep] = 3;
    if (round % 5 == 0) decide(0);
    finish(round % 5 == 0 ? -1 : 0, 1);
  }
}

TEST_F(StepKernels, RingGoesRound) {
  host_.ring.head = kernel_.ring.head = kRingRecords - 2;
  begin_step();
  for (int i = 0; i < 3; ++i) {
    take(random_slots(2, false));
    finish(-1, 3);
  }
  EXPECT_EQ(kernel_.ring.head, kRingRecords + 4);
  EXPECT_EQ(kernel_.ring.records[2].sequence, kRingRecords + 3);
}

TEST_F(StepKernels, PokeWritesItsBytesAlone) {
  auto a = std::make_unique<cuda::PokeArguments>();
  for (std::uint32_t i = 0; i < cuda::kPokeBytes; ++i) a->data[i] = static_cast<unsigned char>(random_());
  for (const std::uint32_t n : {0u, 1u, 7u, 8u, 63u, 100u, cuda::kPokeBytes}) {
    for (const std::uint32_t skip : {8u, 9u}) {
      std::vector<unsigned char> to(cuda::kPokeBytes + 32, 0x77);
      std::vector<unsigned char> want = to;
      std::memcpy(want.data() + skip, a->data, n);
      a->to = to.data() + skip;
      a->bytes = n;
      run_kernel("stepgate_poke", 1, 64, *a);
      EXPECT_EQ(to, want) << n << " bytes";
    }
  }
}

}  // namespace
}  // namespace stepgate::test

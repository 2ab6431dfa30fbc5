// Observing a job that declares nothing, on host memory: what its reductions leave behind, by inferred steps.
#include "plugin/core/observe/observer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <future>
#include <thread>

#include "plugin/core/nccl_types.h"
#include "tests/collectives/device/scan_oracle.h"
#include "tests/plugin/faulty_device.h"

namespace stepgate::test {
namespace {

using gate::Observer;

constexpr std::size_t kElements = 2000;

std::vector<float> filled(float x) {
  return std::vector<float>(kElements, x);
}

class ObserverTest : public testing::Test {
 protected:
  ObserverTest() { options_.identity.rank = 3; }

  Observer& observer() {
    if (observer_ == nullptr) observer_ = std::make_unique<Observer>(options_, device_);
    return *observer_;
  }
  Reduction reduction(std::vector<float>& data) {
    return {OpKind::kAllReduce, ncclFloat32, ncclSum, 0,     data.data(),
            data.data(),        data.size(), 2,       comm_, nullptr};
  }
  void reduce(std::vector<float>& data, stepgate::Outcome outcome = stepgate::Outcome::kLaunched) {
    const Reduction op = reduction(data);
    EXPECT_TRUE(observer().before(op));
    EXPECT_TRUE(observer().after(op, outcome));
  }
  std::vector<StepRecord> steps(std::uint64_t after = 0) {
    std::vector<StepRecord> records(64);
    std::uint64_t lost = 0;
    records.resize(observer().read_steps(after, records.data(), records.size(), &lost));
    lost_ += lost;
    return records;
  }
  std::vector<RangeRecord> ranges() {
    std::vector<RangeRecord> all;
    observer().read_ranges(&all);
    return all;
  }

  FaultyDevice device_;
  gate::ObserverOptions options_;
  ncclComm_t comm_ = reinterpret_cast<ncclComm_t>(&device_);
  std::vector<float> a_ = filled(1), b_ = filled(2);
  std::uint64_t lost_ = 0;
  std::unique_ptr<Observer> observer_;
};

TEST_F(ObserverTest, AStepIsPublishedWhenTheNextOneBegins) {
  reduce(a_);
  reduce(b_);
  EXPECT_TRUE(steps().empty()) << "more of it may come";
  a_.assign(kElements, 3);
  reduce(a_);
  std::vector<StepRecord> done = steps();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].step, 1u);
  EXPECT_EQ(done[0].sequence, 1u);
  EXPECT_EQ(done[0].rank, 3u);
  EXPECT_EQ(done[0].decision.skip, 0u);
  EXPECT_EQ(done[0].local_sum.elements, 2 * kElements);
  EXPECT_EQ(done[0].local_sum.sum_squares, 5.0 * kElements);
  EXPECT_GT(done[0].timestamp_seconds, 0);
  const std::vector<RangeRecord> seen = ranges();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(observer().range_name(seen[0].range), "all_reduce.0");
  EXPECT_EQ(seen[0].stats.abs_max, 1) << "of step 1, though the memory holds step 2's by now";
  EXPECT_EQ(seen[1].stats.abs_max, 2);
  EXPECT_EQ(seen[0].phase, static_cast<std::uint32_t>(ScanPhase::kReduced));
  const metrics::Counters c = observer().counters();
  EXPECT_EQ(c.reductions_scanned[0], 3u);
  EXPECT_EQ(c.scanned_bytes[1], 3 * kElements * sizeof(float));
}

TEST_F(ObserverTest, TheLastStepIsPublishedAtTheEnd) {
  reduce(a_);
  observer().close();
  EXPECT_EQ(steps().size(), 1u);
}

TEST_F(ObserverTest, NonfiniteElementsAreCountedByRange) {
  a_[5] = INFINITY;
  b_[7] = b_[8] = NAN;
  reduce(a_);
  reduce(b_);
  observer().close();
  const StepRecord r = steps().at(0);
  EXPECT_EQ(r.sum_inf, 1u);
  EXPECT_EQ(r.sum_nan, 2u);
  EXPECT_EQ(ranges().at(0).stats.inf, 1u);
  EXPECT_EQ(ranges().at(1).stats.nan, 2u);
}

TEST_F(ObserverTest, WhatIsNoGradientPasses) {
  std::vector<float> loss(1, 1.0f);
  reduce(loss);
  reduce(a_, stepgate::Outcome::kDropped);
  observer().close();
  EXPECT_TRUE(steps().empty());
  EXPECT_EQ(observer().counters().reductions_passed[0], 2u);
  EXPECT_EQ(observer().counters().reductions_scanned[0], 0u);
}

TEST_F(ObserverTest, TheSendBufferIsReadWhereItIsAskedFor) {
  options_.configuration.attribution = gate::Attribution::kOn;
  std::vector<float> mine = filled(4);
  mine[0] = NAN;
  Reduction op = reduction(a_);
  op.send = mine.data();
  EXPECT_TRUE(observer().before(op));
  EXPECT_TRUE(observer().after(op, stepgate::Outcome::kLaunched));
  observer().close();
  const StepRecord r = steps().at(0);
  EXPECT_EQ(r.local_nan, 1u);
  EXPECT_EQ(r.sum_nan, 0u);
  const std::vector<RangeRecord> seen = ranges();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[1].phase, static_cast<std::uint32_t>(ScanPhase::kLocal));
  EXPECT_EQ(seen[1].stats.abs_max, 4);
}

TEST_F(ObserverTest, ByDefaultNobodyReadsTheSendBuffer) {
  Reduction op = reduction(a_);
  op.send = nullptr;
  EXPECT_TRUE(observer().before(op));
  EXPECT_TRUE(observer().after(op, stepgate::Outcome::kLaunched));
  EXPECT_EQ(observer().counters().scanned_bytes[0], 0u);
}

TEST_F(ObserverTest, DeclaredGradientsKeepTheirNames) {
  options_.declared_name = [&](const void* data, std::uint64_t bytes) {
    return data == a_.data() && bytes == kElements * sizeof(float) ? std::string("bucket0") : std::string();
  };
  reduce(a_);
  reduce(b_);
  EXPECT_EQ(observer().range_name(0), "bucket0");
  EXPECT_EQ(observer().range_name(1), "all_reduce.1");
  EXPECT_EQ(observer().range_name(2), "");
}

// The name of a declared gradient does not stay with a number that goes to another range.
TEST_F(ObserverTest, ANumberThatIsTakenOverLosesItsName) {
  options_.declared_name = [&](const void* data, std::uint64_t) {
    return data == a_.data() ? std::string("bucket0") : std::string();
  };
  reduce(a_);
  std::vector<float> of_any_size(2 * gate::kMaxInferredRanges + kElements, 1.0f);
  for (std::uint32_t i = 0; i < gate::kMaxInferredRanges; ++i) {
    Reduction op = reduction(of_any_size);
    op.count = kElements + i;
    EXPECT_TRUE(observer().after(op, stepgate::Outcome::kLaunched));
  }
  EXPECT_EQ(observer().range_name(0), "all_reduce.0");
}

TEST_F(ObserverTest, TheJobsOwnScaleIsReadWhenAStepBegins) {
  float scale = 1024;
  observer().external_scale(&scale);
  reduce(a_);
  scale = 512;  // the scaler moves on; the gradient of step 1 was multiplied by 1024
  reduce(a_);
  steps();
  EXPECT_EQ(ranges().at(0).scale, 1024);
  reduce(a_);
  steps();
  EXPECT_EQ(ranges().at(0).scale, 512);
  observer().external_scale(nullptr);
  reduce(a_);
  reduce(a_);
  steps();
  EXPECT_EQ(ranges().at(0).scale, 0);
}

// A small and a large element of a type, and whether they count as subnormal and overrange.
struct Judged {
  ncclDataType_t type;
  std::uint64_t small, large;
  bool scaled_small, scaled_large;
  bool stored_small;
};

// Without a loss scale nothing says that the job computes in fp16: a bf16 job's 1e-6 is no underflow.
TEST_F(ObserverTest, ALossScaleMakesFp16TheComputeType) {
  const Judged cases[] = {
      {ncclFloat32, 0x35860000, 0x47890000, true, true, false},  // 1e-6, 7e4
      {ncclBfloat16, 0x3586, 0x4789, true, true, false},
      {ncclFloat64, 0x3eb0c6f7a0b5ed8d, 0x40f1170000000000, true, true, false},
      {ncclFloat16, 0x0001, 0x7bff, true, false, true},
      {ncclFloat8e4m3, 0x01, 0x7e, true, false, true},
      {ncclFloat8e5m2, 0x01, 0x7b, true, false, true},
  };
  const float scale = 1024;
  for (const Judged& c : cases) {
    ElementType stored;
    ASSERT_TRUE(gate::element_type_of(c.type, &stored));
    std::vector<std::uint64_t> elements(kElements, 0);
    elements[3] = c.small;
    elements[kElements - 1] = c.large;
    std::vector<unsigned char> bytes = pack(stored, elements);
    Observer o(options_, device_);
    Reduction op = reduction(a_);
    op.type = c.type;
    op.send = op.recv = bytes.data();
    const auto judged = [&] {
      std::vector<StepRecord> records(8);
      std::uint64_t lost = 0;
      EXPECT_TRUE(o.after(op, stepgate::Outcome::kLaunched));  // ends the step before
      EXPECT_GT(o.read_steps(0, records.data(), records.size(), &lost), 0u);
      std::vector<RangeRecord> all;
      o.read_ranges(&all);
      return all.at(0).stats;
    };
    EXPECT_TRUE(o.after(op, stepgate::Outcome::kLaunched));
    o.external_scale(&scale);
    const GradStats plain = judged();
    EXPECT_EQ(plain.elements, kElements) << c.type;
    EXPECT_EQ(plain.subnormals, c.stored_small ? 1u : 0u) << c.type;
    EXPECT_EQ(plain.overranges, 0u) << c.type;
    const GradStats scaled = judged();
    EXPECT_EQ(scaled.subnormals, c.scaled_small ? 1u : 0u) << c.type;
    EXPECT_EQ(scaled.overranges, c.scaled_large ? 1u : 0u) << c.type;
  }
}

// One process with a thread per GPU: the launch waits for a collective that the other thread comes to later.
TEST_F(ObserverTest, AStepHasANormUnscaledWhereTheScaleIsKnown) {
  b_ = filled(0);
  b_[0] = 4;
  a_ = filled(0);
  a_[0] = 3;
  float scale = 2;
  const auto step = [&] {
    reduce(a_);
    reduce(b_);
  };
  step();
  observer().external_scale(&scale);
  step();
  scale = INFINITY;  // no scale
  step();
  b_[1] = INFINITY;
  step();
  observer().close();
  const std::vector<StepRecord> records = steps();
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0].decision.norm, 5);
  EXPECT_EQ(records[1].decision.norm, 2.5);
  EXPECT_EQ(records[2].decision.norm, 5);
  EXPECT_TRUE(std::isnan(records[3].decision.norm)) << "it holds an inf";
  EXPECT_EQ(records[1].scaler.scale, records[1].decision.scale) << "no scaler of ours moves";
}

TEST_F(ObserverTest, WhatConcernsAnotherDeviceWaitsForNoLaunch) {
  std::promise<void> launching, done;
  device_.reach(a_.data());
  device_.at_scan([&] {
    launching.set_value();
    done.get_future().wait();
  });
  std::thread stuck([&] { EXPECT_TRUE(observer().after(reduction(a_), stepgate::Outcome::kLaunched)); });
  launching.get_future().wait();
  EXPECT_TRUE(observer_->before(reduction(b_))) << "nothing to do, whoever it concerns";
  EXPECT_FALSE(observer_->after(reduction(b_), stepgate::Outcome::kLaunched));
  observer_->settled(comm_);
  observer_->comm_retired(comm_);
  done.set_value();
  stuck.join();
}

TEST_F(ObserverTest, PendingReductionsThatNobodyAskedForAreOvertaken) {
  for (int i = 0; i < 600; ++i) reduce(a_, stepgate::Outcome::kPending);
  observer().settled(comm_);
  EXPECT_EQ(observer().counters().reductions_passed[0], 599u);
  EXPECT_EQ(observer().counters().reductions_scanned[0], 1u);
}

TEST_F(ObserverTest, PendingReductionsAreReadByTheirIssuerOnceTheyAreLaunched) {
  reduce(a_, stepgate::Outcome::kPending);
  EXPECT_EQ(observer().counters().reductions_scanned[0], 0u);
  std::thread([&] { observer().settled(comm_); }).join();
  observer().settled(comm_);
  EXPECT_EQ(observer().counters().reductions_scanned[0], 0u) << "by now its memory may be gone";
  EXPECT_EQ(observer().counters().reductions_passed[0], 1u);
  reduce(a_, stepgate::Outcome::kPending);
  observer().settled(comm_);
  EXPECT_EQ(observer().counters().reductions_scanned[0], 1u);
  reduce(a_, stepgate::Outcome::kPending);
  observer().comm_retired(comm_);
  observer().settled(comm_);
  EXPECT_EQ(observer().counters().reductions_scanned[0], 1u) << "nobody knows what became of it";
}

TEST_F(ObserverTest, RecordsThatNobodyReadAreTold) {
  for (int i = 0; i < static_cast<int>(kRingRecords) + 6; ++i) reduce(a_);
  std::vector<StepRecord> records(2000);
  std::uint64_t lost = 0;
  ASSERT_EQ(observer().read_steps(0, records.data(), records.size(), &lost), kRingRecords);
  EXPECT_EQ(lost, 5u) << "the last one is still open";
  EXPECT_EQ(records[0].sequence, 6u);
  EXPECT_EQ(observer().read_steps(kRingRecords + 3, records.data(), 1, &lost), 1u);
  EXPECT_EQ(lost, 0u);
  EXPECT_EQ(records[0].sequence, kRingRecords + 4);
}

TEST_F(ObserverTest, FailuresOfTheDeviceCostTheLookAlone) {
  reduce(a_);
  for (const auto call : {FaultyDevice::kBeginStep, FaultyDevice::kScan, FaultyDevice::kFinishStep}) {
    device_.fail(call, 0);
    reduce(b_);
    device_.heal();
  }
  reduce(b_);
  observer().close();
  std::uint64_t errors = 0;
  for (const std::uint64_t n : observer().counters().plugin_errors) errors += n;
  EXPECT_EQ(errors, 3u);
  const std::vector<StepRecord> done = steps();
  ASSERT_EQ(done.size(), 1u) << "the steps that miss a gradient are not told";
  EXPECT_EQ(done[0].step, 4u);
  EXPECT_EQ(lost_, 3u);
  EXPECT_EQ(ranges().at(0).stats.abs_max, 2);
}

TEST_F(ObserverTest, FailsWithEveryAllocation) {
  for (int n = 0; n < 12; ++n) {
    FaultyDevice device;
    device.fail(FaultyDevice::kAllocate, n, FaultyDevice::kForEver);
    Observer o(options_, device);
    const Reduction op = reduction(a_);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(o.after(op, stepgate::Outcome::kLaunched)) << n;
  }
}

TEST_F(ObserverTest, TheReaderRunsBesideTheJob) {
  observer();
  // Small, so that fp32 sums of squares are exact.
  const auto value_of = [](std::uint64_t step) { return static_cast<double>(step % 64); };
  std::atomic<bool> done{false};
  std::thread reader([&] {
    std::uint64_t after = 0, lost = 0;
    std::vector<StepRecord> records(16);
    while (!done.load()) {
      const std::size_t n = observer().read_steps(after, records.data(), records.size(), &lost);
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_EQ(records[i].sequence, after + 1 + (i == 0 ? lost : 0))
            << "a late reader is told what it lost";
        after = records[i].sequence;
        EXPECT_EQ(records[i].local_sum.sum_squares,
                  value_of(records[i].step) * value_of(records[i].step) * kElements);
      }
      std::vector<RangeRecord> all;
      observer().read_ranges(&all);
      for (const RangeRecord& r : all) EXPECT_EQ(r.stats.abs_max, value_of(r.step));
    }
  });
  for (int i = 1; i <= 3000; ++i) {
    a_.assign(kElements, static_cast<float>(value_of(static_cast<std::uint64_t>(i))));
    reduce(a_);
  }
  done = true;
  reader.join();
}

}  // namespace
}  // namespace stepgate::test

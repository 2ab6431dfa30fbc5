// Steps captured into graphs and replayed; what a capture forbids.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <string>
#include <vector>

#include "collectives/device/host/host_device.h"
#include "tests/collectives/device_cuda_driver/device_job.h"
#include "tests/collectives/device_cuda_driver/standin.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

using namespace device::cuda;

StreamHandle handle(const JobStream& s) {
  return static_cast<StreamHandle>(s.get());
}

// A captured graph, ready to be launched.
class Replay {
 public:
  Replay(const Driver& driver, GraphHandle graph) : driver_(driver), graph_(graph) {
    EXPECT_EQ(driver.call(driver.api().GraphInstantiateWithFlags, &exec_, graph, 0ull), Result::kSuccess);
  }
  ~Replay() {
    EXPECT_EQ(driver_.call(driver_.api().GraphExecDestroy, exec_), Result::kSuccess);
    EXPECT_EQ(driver_.call(driver_.api().GraphDestroy, graph_), Result::kSuccess);
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  Result launch(StreamHandle s) const { return driver_.call(driver_.api().GraphLaunch, exec_, s); }

 private:
  const Driver& driver_;
  GraphHandle graph_;
  GraphExecHandle exec_ = nullptr;
};

JobTrace eager_on_host(const JobPlan& plan) {
  device::HostDevice host;
  std::string error;
  JobTrace trace = DeviceJob::run(host, nullptr, plan, &error);
  EXPECT_EQ(error, "");
  return trace;
}

// Step numbers, scales and the ring's head live in device memory: every replay is the next step.
TEST(CudaGraph, AWholeStepReplaysAsTheNextOne) {
  JobPlan plan = random_plan(test_seed());
  plan.steps = {Spoil::kNothing, Spoil::kInf, Spoil::kNothing, Spoil::kNan, Spoil::kNothing};
  StandIn standin;
  const auto cuda = standin.device();
  ASSERT_NE(cuda, nullptr);
  const JobStream stream(standin);
  const Driver& d = stream.driver();
  DeviceJob job(*cuda, stream.get(), plan);
  std::string error;
  ASSERT_TRUE(job.usable() && job.start(&error)) << error;
  GraphHandle graph = nullptr;
  ASSERT_EQ(d.call(d.api().StreamBeginCapture, handle(stream), CaptureMode::kGlobal), Result::kSuccess);
  const std::uint64_t before = standin.control().kernels_run();
  ASSERT_TRUE(job.enqueue_step(Spoil::kNothing, &error)) << error;
  ASSERT_EQ(d.call(d.api().StreamEndCapture, handle(stream), &graph), Result::kSuccess);
  EXPECT_EQ(standin.control().kernels_run(), before);
  const Replay replay(d, graph);
  JobTrace trace;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    for (std::size_t r = 0; r < plan.ranges.size(); ++r) {
      ASSERT_TRUE(job.fill(r, r == i % plan.ranges.size() ? plan.steps[i] : Spoil::kNothing, &error))
          << error;
    }
    ASSERT_EQ(replay.launch(handle(stream)), Result::kSuccess);
    ASSERT_TRUE(job.collect(&trace, &error)) << error;
  }
  EXPECT_EQ(difference(trace, eager_on_host(plan)), "");
}

// Five replays are the steps one to five, each with a record of its own; scans that have run already in
// a replay's step run no second time.
TEST(CudaGraph, ReplaysAreStepsAndStampsHold) {
  StandIn standin;
  const auto cuda = standin.device();
  ASSERT_NE(cuda, nullptr);
  const JobStream stream(standin);
  const Driver& d = stream.driver();
  Held block(*cuda, sizeof(GateBlock), device::Memory::kDevice);
  Held slot(*cuda, sizeof(RangeSlot), device::Memory::kMapped);  // the host looks on
  Held fields(*cuda, sizeof(double) * kSummaryFields, device::Memory::kDevice);
  Held ring(*cuda, sizeof(StepRecord) * kRingRecords, device::Memory::kMapped);
  Held head(*cuda, sizeof(std::uint64_t), device::Memory::kMapped);
  Held data(*cuda, 64, device::Memory::kMapped);
  const GateBlock fresh = [] {
    GateBlock g{};
    g.params = default_params(ScalerRule::kTorch);
    g.scaler = initial_state(g.params);
    g.latched_scale = 1;
    return g;
  }();
  GateBlock* g = block.as<GateBlock>();
  ASSERT_EQ(cuda->copy_in(stream.get(), g, &fresh, sizeof fresh), device::Code::kOk);
  new (slot.as<void>()) RangeSlot;
  float* x = data.as<float>();
  std::fill(x, x + 16, 65536.0f);
  const device::Segment segment{x, 16};
  device::Scan scan;
  scan.segments = {&segment, 1};
  scan.total = &slot.as<RangeSlot>()->reduced;
  scan.epoch = &g->step;
  scan.stamp = &slot.as<RangeSlot>()->reduced_step;
  scan.unless_stamped = true;
  scan.unscale_by = &g->latched_scale;
  ASSERT_EQ(cuda->prepare(scan), device::Code::kOk);
  device::FinishStep finish;
  finish.g = g;
  finish.decide_set = 0;
  finish.fields = fields.as<double>();
  finish.publish_sets = 1;
  finish.slots = slot.as<RangeSlot>();
  finish.slot_count = 1;
  finish.ring = {ring.as<StepRecord>(), head.as<std::uint64_t>()};

  GraphHandle graph = nullptr;
  ASSERT_EQ(d.call(d.api().StreamBeginCapture, handle(stream), CaptureMode::kGlobal), Result::kSuccess);
  EXPECT_EQ(cuda->capture_state(stream.get()), device::CaptureState::kCapturing);
  EXPECT_EQ(cuda->begin_step(stream.get(), {.g = g, .slots = slot.as<RangeSlot>(), .slot_count = 1}),
            device::Code::kOk);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cuda->scan(stream.get(), scan), device::Code::kOk);
  EXPECT_EQ(cuda->scan_all(stream.get(), {&scan, 1}), device::Code::kOk);
  EXPECT_EQ(cuda->summarize(
                stream.get(),
                {.g = g, .slots = slot.as<RangeSlot>(), .slot_count = 1, .fields = fields.as<double>()}),
            device::Code::kOk);
  EXPECT_EQ(cuda->finish_step(stream.get(), finish), device::Code::kOk);
  ASSERT_EQ(d.call(d.api().StreamEndCapture, handle(stream), &graph), Result::kSuccess);
  const Replay replay(d, graph);
  for (std::uint64_t step = 1; step <= 5; ++step) {
    ASSERT_EQ(replay.launch(handle(stream)), Result::kSuccess);
    ASSERT_EQ(cuda->synchronize(stream.get()), device::Code::kOk);
    // Divided once a step, whatever the number of scans: by the scale that this step latched.
    EXPECT_EQ(x[7], std::ldexp(65536.0f, -16 * static_cast<int>(step))) << step;
    EXPECT_EQ(slot.as<RangeSlot>()->reduced_step, step);
    ASSERT_EQ(*head.as<std::uint64_t>(), step);
    const StepRecord& r = ring.as<StepRecord>()[step - 1];
    EXPECT_EQ(r.step, step);
    EXPECT_EQ(r.sequence, step);
    EXPECT_EQ(r.decision.skip, 0u);
    EXPECT_EQ(r.scaler.growth_tracker, static_cast<std::int64_t>(step));
    EXPECT_EQ(r.local_sum.abs_max, std::ldexp(65536.0, -16 * static_cast<int>(step - 1)));
  }
}

class Capture : public testing::Test {
 protected:
  const Driver& driver() const { return first_.driver(); }
  Result begin() {
    return driver().call(driver().api().StreamBeginCapture, handle(first_), CaptureMode::kGlobal);
  }
  Result end() { return driver().call(driver().api().StreamEndCapture, handle(first_), &graph_); }
  Result host(const JobStream& s, HostFunction f, void* data) {
    return driver().call(driver().api().LaunchHostFunc, handle(s), f, data);
  }
  Result record(const JobStream& s) { return driver().call(driver().api().EventRecord, event_, handle(s)); }
  Result wait(const JobStream& s) {
    return driver().call(driver().api().StreamWaitEvent, handle(s), event_, 0u);
  }

  void SetUp() override {
    ASSERT_EQ(driver().call(driver().api().EventCreate, &event_, kEventDisableTiming), Result::kSuccess);
  }
  void TearDown() override {
    if (graph_ != nullptr) {
      EXPECT_EQ(driver().call(driver().api().GraphDestroy, graph_), Result::kSuccess);
    }
    EXPECT_EQ(driver().call(driver().api().EventDestroy, event_), Result::kSuccess);
  }

  StandIn standin_;
  JobStream first_{standin_};
  JobStream second_{standin_};
  EventHandle event_ = nullptr;
  GraphHandle graph_ = nullptr;
};

// `order` without an event between two streams is left to chance; with one it is kept.
TEST_F(Capture, EventsAreTheOnlyOrderBetweenStreams) {
  struct Log {
    std::vector<int> seen;
    static void one(void* self) { static_cast<Log*>(self)->seen.push_back(1); }
    static void two(void* self) { static_cast<Log*>(self)->seen.push_back(2); }
  } log;
  for (const bool ordered : {true, false}) {
    ASSERT_EQ(begin(), Result::kSuccess);
    if (!ordered) record(first_), wait(second_);
    ASSERT_EQ(host(first_, &Log::one, &log), Result::kSuccess);
    if (ordered) record(first_), wait(second_);
    ASSERT_EQ(host(second_, &Log::two, &log), Result::kSuccess);
    ASSERT_EQ(record(second_), Result::kSuccess);
    ASSERT_EQ(wait(first_), Result::kSuccess);
    ASSERT_EQ(end(), Result::kSuccess);
    int swapped = 0;
    {
      const Replay replay(driver(), graph_);
      for (int i = 0; i < 100; ++i) {
        log.seen.clear();
        ASSERT_EQ(replay.launch(handle(first_)), Result::kSuccess);
        ASSERT_EQ(driver().call(driver().api().StreamSynchronize, handle(first_)), Result::kSuccess);
        ASSERT_EQ(log.seen.size(), 2u);
        swapped += log.seen[0] == 2;
      }
    }
    graph_ = nullptr;
    if (ordered) {
      EXPECT_EQ(swapped, 0);
    } else {
      EXPECT_GT(swapped, 0);
    }
  }
}

TEST_F(Capture, AStreamThatIsNotJoinedIsRefused) {
  ASSERT_EQ(begin(), Result::kSuccess);
  ASSERT_EQ(record(first_), Result::kSuccess);
  ASSERT_EQ(wait(second_), Result::kSuccess);
  ASSERT_EQ(host(
                second_, [](void*) {}, nullptr),
            Result::kSuccess);
  EXPECT_EQ(end(), Result::kStreamCaptureUnjoined);
}

TEST_F(Capture, WaitingForItIsRefused) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(begin(), Result::kSuccess);
    ASSERT_EQ(record(first_), Result::kSuccess);
    const Result r[] = {
        driver().call(driver().api().StreamSynchronize, i == 0 ? handle(first_) : nullptr),
        i == 1 ? driver().call(driver().api().EventQuery, event_) : Result::kSuccess,
        i == 2 ? driver().call(driver().api().StreamQuery, handle(first_)) : Result::kSuccess};
    EXPECT_EQ(r[i], Result::kStreamCaptureUnsupported) << i;
    EXPECT_EQ(end(), Result::kStreamCaptureInvalidated) << i;
  }
}

// CudaDevice allocates whatever captures elsewhere in the process; a plain allocation costs the capture.
TEST_F(Capture, ADeviceAllocatesBesideIt) {
  ASSERT_EQ(begin(), Result::kSuccess);
  {
    const auto cuda = standin_.device();
    ASSERT_NE(cuda, nullptr);
    for (const device::Memory kind : {device::Memory::kDevice, device::Memory::kMapped}) {
      void* memory = cuda->allocate(100, kind);
      EXPECT_NE(memory, nullptr) << cuda->last_error();
      cuda->release(memory, kind);
    }
  }
  EXPECT_EQ(end(), Result::kSuccess);
  EXPECT_EQ(driver().call(driver().api().GraphDestroy, graph_), Result::kSuccess);
  graph_ = nullptr;
  ASSERT_EQ(begin(), Result::kSuccess);
  DevicePtr memory = 0;
  EXPECT_EQ(driver().call(driver().api().MemAlloc, &memory, std::size_t{8}),
            Result::kStreamCaptureUnsupported);
  EXPECT_EQ(end(), Result::kStreamCaptureInvalidated);
}

}  // namespace
}  // namespace stepgate::test

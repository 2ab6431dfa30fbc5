// Observing a job that declares nothing, in a device's memory: on the job's streams, past its captures, with
// its own loss scale on the device.
#include "plugin/core/observe/observer.h"

#include <cmath>

#include "tests/plugin/cuda/cuda_world.h"

namespace stepgate::test {
namespace {

using device::cuda::GraphExecHandle;
using gate::Observer;

// Delays between the operations of every stream: what is not ordered comes in the wrong order.
constexpr unsigned kShuffle = 1000;

// A rank's reductions through an observer of its device.
class Looker {
 public:
  explicit Looker(CudaRank& r) : r_(r), observer_(options(), r.device()) {}

  Observer& observer() { return observer_; }
  ncclResult_t reduce(int buffer, device::Stream s) {
    const Reduction op = r_.reduction(buffer, s);
    EXPECT_TRUE(observer_.before(op));
    const ncclResult_t code = r_.nccl().all_reduce(r_.rank(), op.send, op.recv, op.count, op.type, s);
    EXPECT_TRUE(observer_.after(
        op, code == ncclInProgress ? stepgate::Outcome::kPending : stepgate::Outcome::kLaunched));
    return code;
  }
  // What the steps so far have left, once both streams have come there.
  std::vector<StepRecord> steps() {
    r_.sync(r_.stream());
    r_.sync(r_.side_stream());
    std::vector<StepRecord> records(64);
    std::uint64_t lost = 0;
    records.resize(observer_.read_steps(0, records.data(), records.size(), &lost));
    EXPECT_EQ(lost, 0u);
    return records;
  }
  std::vector<RangeRecord> ranges() {
    std::vector<RangeRecord> all;
    observer_.read_ranges(&all);
    return all;
  }

 private:
  static gate::ObserverOptions options() {
    gate::ObserverOptions o;
    o.configuration.observe_min_count = CudaRank::kElements;
    o.configuration.attribution = gate::Attribution::kOn;
    return o;
  }
  CudaRank& r_;
  Observer observer_;
};

// The send buffer before, the receive buffer after the reduction; the job overwrites it right behind.
TEST(CudaObserver, LooksOnTheStreamOfTheReduction) {
  CudaWorld world({.ranks = 2, .max_delay_us = kShuffle});
  world.run([](CudaRank& r) {
    Looker look(r);
    for (int i = 1; i <= 5; ++i) {
      const auto x = static_cast<float>(i);
      r.fill(0, {x});
      r.fill(1, {3 * x, i == 3 ? NAN : 0}, 0, r.side_stream());
      look.reduce(0, r.stream());
      look.reduce(1, r.side_stream());
      r.fill(0, {1000});
      r.fill(1, {1000}, 0, r.side_stream());
      look.steps();
    }
    look.observer().close();
    const std::vector<StepRecord> done = look.steps();
    ASSERT_EQ(done.size(), 5u);
    for (int i = 1; i <= 5; ++i) {
      const StepRecord& step = done[static_cast<std::size_t>(i - 1)];
      EXPECT_EQ(step.local_sum.sum_squares, 4.0 * i * i + 36.0 * i * i) << "of both ranks, step " << i;
      EXPECT_EQ(step.local_nan, i == 3 ? 1u : 0u);
      EXPECT_EQ(step.sum_nan, i == 3 ? 1u : 0u);
    }
    for (const RangeRecord& range : look.ranges()) {
      const bool reduced = range.phase == static_cast<std::uint32_t>(ScanPhase::kReduced);
      EXPECT_EQ(range.stats.abs_max, (range.range == 0 ? 5 : 15) * (reduced ? 2 : 1)) << range.range;
    }
  });
}

TEST(CudaObserver, NothingWaits) {
  CudaWorld world({.ranks = 1, .max_delay_us = 200});
  world.run([](CudaRank& r) {
    Looker look(r);
    look.reduce(0, r.stream());
    r.standin().control().forget_calls();
    for (int i = 0; i < 4; ++i) {
      look.reduce(0, r.stream());
      look.reduce(1, r.side_stream());
    }
    for (const standin::CallRecord& c : r.standin().calls()) {
      const std::string name = c.name;
      for (const char* bad : {"Synchronize", "WaitEvent", "Alloc", "EventQuery"}) {
        EXPECT_EQ(name.find(bad), std::string::npos) << name;
      }
    }
  });
}

// A replay calls no hook, so what is recorded is not looked at. The other stream's reduction is.
TEST(CudaObserver, ReductionsOfACapturePassUnseen) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    Looker look(r);
    const std::uint64_t before = r.standin().count("cuLaunchKernel");
    const GraphExecHandle graph = r.record(r.stream(), [&] {
      look.reduce(0, r.stream());
      EXPECT_EQ(r.standin().count("cuLaunchKernel"), before) << "nothing of ours is in the graph";
      look.reduce(1, r.side_stream());
    });
    for (int i = 0; i < 3; ++i) r.launch(graph, r.stream());
    look.observer().close();
    const std::vector<StepRecord> done = look.steps();
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].local_sum.elements, CudaRank::kElements);
    EXPECT_EQ(look.observer().counters().reductions_passed[0], 1u);
    EXPECT_EQ(look.observer().counters().reductions_scanned[0], 1u);
  });
}

// Read by a copy on the first stream of a step, behind what the job has enqueued there: the scale that this
// step's backward had, whatever the scaler writes behind it.
TEST(CudaObserver, AScaleInDeviceMemoryIsReadInOrder) {
  CudaWorld world({.ranks = 1, .max_delay_us = kShuffle});
  world.run([](CudaRank& r) {
    constexpr int kScale = 3;
    Looker look(r);
    r.fill(kScale, {1024});
    look.observer().external_scale(r.buffer(kScale));
    const auto scale_of_last = [&] {
      look.steps();
      return look.ranges().at(0).scale;
    };
    r.fill(0, {1e-6f});
    look.reduce(0, r.stream());
    r.fill(kScale, {512});
    look.reduce(0, r.stream());
    EXPECT_EQ(scale_of_last(), 1024);
    EXPECT_EQ(look.ranges().at(0).stats.subnormals, 1u) << "a job that scales its loss computes in fp16";
    r.fill(kScale, {256});
    look.reduce(0, r.stream());
    EXPECT_EQ(scale_of_last(), 512);
    const float on_the_host = 64;
    look.observer().external_scale(&on_the_host);
    look.reduce(0, r.stream());
    EXPECT_EQ(scale_of_last(), 256);
    look.observer().external_scale(nullptr);
    look.reduce(0, r.stream());
    EXPECT_EQ(scale_of_last(), 64);
    look.reduce(0, r.stream());
    EXPECT_EQ(scale_of_last(), 0);
    EXPECT_EQ(look.ranges().at(0).stats.subnormals, 0u);
  });
}

TEST(CudaObserver, AScaleOnAnotherDeviceIsNone) {
  CudaWorld world({.ranks = 2});
  std::atomic<float*> other{nullptr};
  std::atomic<bool> done{false};
  world.run([&](CudaRank& r) {
    if (r.rank() == 1) {
      other = r.buffer(3);
      while (!done) std::this_thread::yield();
      return;
    }
    while (other == nullptr) std::this_thread::yield();
    Looker look(r);
    look.observer().external_scale(other);
    const Reduction op = r.reduction(0, r.stream());
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(look.observer().after(op, stepgate::Outcome::kLaunched));
    EXPECT_EQ(look.steps().size(), 1u);
    EXPECT_EQ(look.ranges().at(0).scale, 0);
    done = true;
  });
}

// A helper thread of NCCL launches later: looked at once the job has been told, behind the reduction.
TEST(CudaObserver, ACommunicatorThatDoesNotBlock) {
  CudaWorld world({.ranks = 2, .max_delay_us = 200});
  world.run([](CudaRank& r) {
    Looker look(r);
    r.nccl().set_delay(r.rank(), 5000);
    for (int i = 1; i <= 3; ++i) {
      r.fill(0, {static_cast<float>(i)});
      ASSERT_EQ(look.reduce(0, r.stream()), ncclInProgress);
      EXPECT_EQ(look.observer().counters().reductions_scanned[0], static_cast<std::uint64_t>(i - 1));
      while (r.nccl().async_error(r.rank()) == ncclInProgress) std::this_thread::yield();
      look.observer().settled(r.comm());
      EXPECT_EQ(look.observer().counters().reductions_scanned[0], static_cast<std::uint64_t>(i));
      look.steps();
    }
    look.observer().close();
    const std::vector<StepRecord> done = look.steps();
    ASSERT_EQ(done.size(), 3u);
    for (const StepRecord& s : done) {
      EXPECT_EQ(s.local_sum.sum_squares, 4.0 * static_cast<double>(s.step * s.step)) << "after the reduction";
    }
  });
}

TEST(CudaObserver, MemoryOfTheHostIsNotItsOwn) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    Looker look(r);
    std::vector<float> host(CudaRank::kElements, 1.0f);
    Reduction op = r.reduction(0, r.stream());
    op.send = op.recv = host.data();
    EXPECT_FALSE(look.observer().before(op));
    EXPECT_FALSE(look.observer().after(op, stepgate::Outcome::kLaunched));
  });
}

// AddressSanitizer, and the stand-in's account at the end, say whether it waited for its own work.
TEST(CudaObserver, DestroyedWithWorkInFlight) {
  CudaWorld world({.ranks = 1, .max_delay_us = 2000});
  world.run([](CudaRank& r) {
    Looker look(r);
    r.fill(3, {2});
    look.observer().external_scale(r.buffer(3));
    look.reduce(0, r.stream());
    look.reduce(1, r.side_stream());
  });
}

}  // namespace
}  // namespace stepgate::test

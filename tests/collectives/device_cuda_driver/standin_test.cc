// The stand-in itself: order of streams, events, the NULL stream, pageable copies, misuse.
#include "tests/collectives/device_cuda_driver/standin.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

using namespace device::cuda;

standin::Options delayed() {
  standin::Options options;
  options.max_delay_us = 2000;
  options.seed = test_seed();
  return options;
}

// A host function that waits until the test says so, so that no outcome depends on time.
struct Latch {
  std::atomic<bool> open = false;
  std::atomic<int> passed = 0;
  static void wait(void* self) {
    auto* latch = static_cast<Latch*>(self);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!latch->open.load() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    ++latch->passed;
  }
  static void pass(void* self) { ++static_cast<Latch*>(self)->passed; }
};

// Time for what may not happen to happen: right code passes however long or short it is.
void linger() {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

TEST(StandInCuda, StreamsRunWhileTheHostGoesOn) {
  StandIn standin;
  const JobStream stream(standin);
  const Driver& d = stream.driver();
  const auto s = static_cast<StreamHandle>(stream.get());
  Latch latch;
  ASSERT_EQ(d.call(d.api().LaunchHostFunc, s, &Latch::wait, static_cast<void*>(&latch)), Result::kSuccess);
  EXPECT_EQ(d.call(d.api().StreamQuery, s), Result::kNotReady);
  EXPECT_EQ(latch.passed.load(), 0);
  latch.open = true;
  EXPECT_EQ(d.call(d.api().StreamSynchronize, s), Result::kSuccess);
  EXPECT_EQ(latch.passed.load(), 1);
  EXPECT_EQ(d.call(d.api().StreamQuery, s), Result::kSuccess);
}

TEST(StandInCuda, EventsOrderStreams) {
  StandIn standin(delayed());
  const JobStream first(standin);
  const JobStream second(standin);
  const Driver& d = first.driver();
  EventHandle event = nullptr;
  ASSERT_EQ(d.call(d.api().EventCreate, &event, kEventDisableTiming), Result::kSuccess);
  const auto a = static_cast<StreamHandle>(first.get());
  const auto b = static_cast<StreamHandle>(second.get());
  Latch latch;
  ASSERT_EQ(d.call(d.api().LaunchHostFunc, a, &Latch::wait, static_cast<void*>(&latch)), Result::kSuccess);
  ASSERT_EQ(d.call(d.api().EventRecord, event, a), Result::kSuccess);
  ASSERT_EQ(d.call(d.api().StreamWaitEvent, b, event, 0u), Result::kSuccess);
  Latch after;
  ASSERT_EQ(d.call(d.api().LaunchHostFunc, b, &Latch::pass, static_cast<void*>(&after)), Result::kSuccess);
  linger();
  EXPECT_EQ(d.call(d.api().EventQuery, event), Result::kNotReady);
  EXPECT_EQ(after.passed.load(), 0);
  latch.open = true;
  EXPECT_EQ(d.call(d.api().StreamSynchronize, b), Result::kSuccess);
  EXPECT_EQ(latch.passed.load() + after.passed.load(), 2);
  EXPECT_EQ(d.call(d.api().EventSynchronize, event), Result::kSuccess);
  EXPECT_EQ(d.call(d.api().EventDestroy, event), Result::kSuccess);
}

// Blocking streams and the NULL stream wait for each other; a non-blocking one does not.
TEST(StandInCuda, TheNullStreamIsOrderedWithBlockingOnes) {
  StandIn standin(delayed());
  const JobStream blocking(standin, 0, true);
  const JobStream other(standin);
  const Driver& d = blocking.driver();
  Latch latch, null_done, other_done;
  const auto push = [&](device::Stream s, HostFunction f, Latch& l) {
    ASSERT_EQ(d.call(d.api().LaunchHostFunc, static_cast<StreamHandle>(s), f, static_cast<void*>(&l)),
              Result::kSuccess);
  };
  push(blocking.get(), &Latch::wait, latch);
  push(nullptr, &Latch::pass, null_done);
  push(other.get(), &Latch::pass, other_done);
  EXPECT_EQ(d.call(d.api().StreamSynchronize, static_cast<StreamHandle>(other.get())), Result::kSuccess);
  EXPECT_EQ(other_done.passed.load(), 1);
  linger();
  EXPECT_EQ(null_done.passed.load(), 0);
  latch.open = true;
  EXPECT_EQ(d.call(d.api().StreamSynchronize, static_cast<StreamHandle>(nullptr)), Result::kSuccess);
  EXPECT_EQ(null_done.passed.load(), 1);
}

TEST(StandInCuda, KnowsWhatAPointerIs) {
  StandIn standin;
  const JobStream stream(standin);
  const Driver& d = stream.driver();
  DevicePtr memory = 0;
  void* pinned = nullptr;
  int on_stack = 0;
  ASSERT_EQ(d.call(d.api().MemAlloc, &memory, std::size_t{100}), Result::kSuccess);
  ASSERT_EQ(d.call(d.api().MemHostAlloc, &pinned, std::size_t{100}, kHostAllocDeviceMap), Result::kSuccess);
  MemoryType type{};
  const auto ask = [&](DevicePtr p) {
    return d.call(d.api().PointerGetAttribute, static_cast<void*>(&type), PointerAttribute::kMemoryType, p);
  };
  EXPECT_EQ(ask(memory + 99), Result::kSuccess);
  EXPECT_EQ(type, MemoryType::kDevice);
  EXPECT_EQ(ask(reinterpret_cast<std::uintptr_t>(pinned)), Result::kSuccess);
  EXPECT_EQ(type, MemoryType::kHost);
  EXPECT_EQ(ask(memory + 100), Result::kInvalidValue);
  EXPECT_EQ(ask(reinterpret_cast<std::uintptr_t>(&on_stack)), Result::kInvalidValue);
  // Into memory that the driver does not know the host waits; into pinned memory it does not.
  standin.control().forget_calls();
  const auto s = static_cast<StreamHandle>(stream.get());
  EXPECT_EQ(d.call(d.api().MemcpyDtoHAsync, static_cast<void*>(&on_stack), memory, std::size_t{4}, s),
            Result::kSuccess);
  EXPECT_EQ(d.call(d.api().MemcpyDtoHAsync, pinned, memory, std::size_t{4}, s), Result::kSuccess);
  ASSERT_EQ(standin.calls().size(), 2u);
  EXPECT_EQ(standin.calls()[0].waited, 1);
  EXPECT_EQ(standin.calls()[1].waited, 0);
  EXPECT_EQ(d.call(d.api().MemFree, memory), Result::kSuccess);
  EXPECT_EQ(d.call(d.api().MemFreeHost, pinned), Result::kSuccess);
}

TEST(StandInCuda, CountsMisuse) {
  StandIn standin;
  {
    const JobStream stream(standin);
    const Driver& d = stream.driver();
    DevicePtr memory = 0;
    ASSERT_EQ(d.call(d.api().MemAlloc, &memory, std::size_t{100}), Result::kSuccess);
    EXPECT_FALSE(standin.control().account().empty());
    EXPECT_EQ(standin.control().account().device_bytes, 100);
    EXPECT_EQ(d.call(d.api().MemFree, memory), Result::kSuccess);
    EXPECT_EQ(d.call(d.api().MemFree, memory), Result::kInvalidValue);
    int nothing = 0;
    EXPECT_EQ(d.call(d.api().StreamSynchronize, reinterpret_cast<StreamHandle>(&nothing)),
              Result::kInvalidHandle);
    EXPECT_EQ(standin.control().account().misuses, 2);
  }
  standin.control().configure({});
}

#if !defined(__SANITIZE_THREAD__)
// With the guard a host that reads device memory dies of it.
TEST(StandInCudaDeathTest, TheHostMayNotTouchDeviceMemory) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto touch = [] {
    standin::Options options;
    options.guard = true;
    StandIn standin(options);
    const auto cuda = standin.device();
    auto* memory = static_cast<volatile unsigned char*>(cuda->allocate(16, device::Memory::kDevice));
    return static_cast<int>(memory[0]);
  };
  EXPECT_DEATH(std::exit(touch()), "");
}
#endif

}  // namespace
}  // namespace stepgate::test

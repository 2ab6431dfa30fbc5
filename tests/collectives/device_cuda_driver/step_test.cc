// Whole steps: the same bytes on CudaDevice as on HostDevice, and what a step asks of the driver.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <thread>

#include "collectives/device/host/host_device.h"
#include "tests/collectives/device_cuda_driver/device_job.h"
#include "tests/collectives/device_cuda_driver/standin.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

JobTrace on_host(const JobPlan& plan) {
  device::HostDevice host;
  std::string error;
  JobTrace trace = DeviceJob::run(host, nullptr, plan, &error);
  EXPECT_EQ(error, "");
  return trace;
}

TEST(CudaStep, TheHostsBits) {
  const JobPlan plan = random_plan(test_seed());
  const JobTrace want = on_host(plan);
  ASSERT_EQ(want.steps.size(), plan.steps.size());
  EXPECT_EQ(want.steps[0].block.sets[0].decision.skip, 0u);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Reason reasons[] = {Reason::kNone, Reason::kInf, Reason::kNan, Reason::kVeto};  // as Spoil
    EXPECT_EQ(want.records[i].decision.reason, reasons[static_cast<std::size_t>(plan.steps[i])]) << i;
  }
  StandIn standin;
  {
    const auto cuda = standin.device();
    ASSERT_NE(cuda, nullptr);
    const JobStream stream(standin);
    std::string error;
    EXPECT_EQ(difference(DeviceJob::run(*cuda, stream.get(), plan, &error), want), "");
    EXPECT_EQ(error, "");
  }
  EXPECT_GT(standin.control().kernels_run(), 30u);
}

TEST(CudaStep, TheHostsBitsWithDelaysAndAGuard) {
  const JobPlan plan = random_plan(test_seed());
  standin::Options options;
  options.guard = true;
  options.max_delay_us = 200;
  options.seed = test_seed();
  StandIn standin(options);
  const auto cuda = standin.device();
  ASSERT_NE(cuda, nullptr);
  std::string error;
  EXPECT_EQ(difference(DeviceJob::run(*cuda, nullptr, plan, &error), on_host(plan)), "");
  EXPECT_EQ(error, "");
}

class CudaStepPlans : public testing::TestWithParam<int> {};

TEST_P(CudaStepPlans, GiveTheHostsBits) {
  JobPlan plan = random_plan(test_seed());
  plan.prepare = (GetParam() & 1) != 0;
  plan.in_place = (GetParam() & 2) != 0;
  StandIn standin;
  const auto cuda = standin.device();
  ASSERT_NE(cuda, nullptr);
  const JobStream stream(standin);
  std::string error;
  EXPECT_EQ(difference(DeviceJob::run(*cuda, stream.get(), plan, &error), on_host(plan)), "");
  EXPECT_EQ(error, "");
}

INSTANTIATE_TEST_SUITE_P(PreparedOrNotInPlaceOrNot, CudaStepPlans, testing::Range(0, 4));

// What the hot path may ask of the driver; anything else waits, allocates or asks for an event.
const std::set<std::string> kHotPath = {"cuCtxGetCurrent",    "cuLaunchKernel", "cuMemcpyDtoHAsync_v2",
                                        "cuMemsetD8Async",    "cuEventRecord",  "cuStreamWaitEvent",
                                        "cuStreamIsCapturing"};

TEST(CudaStep, AsksTheDriverForWorkAlone) {
  const JobPlan plan = random_plan(test_seed());
  StandIn standin;
  const auto cuda = standin.device();
  ASSERT_NE(cuda, nullptr);
  const JobStream stream(standin);
  DeviceJob job(*cuda, stream.get(), plan);
  std::string error;
  ASSERT_TRUE(job.usable() && job.start(&error)) << error;
  standin.control().forget_calls();
  ASSERT_TRUE(job.enqueue_step(Spoil::kNothing, &error)) << error;
  for (const standin::CallRecord& c : standin.calls()) {
    EXPECT_TRUE(kHotPath.count(c.name) != 0) << c.name;
    EXPECT_EQ(c.waited, 0) << c.name;
  }
  // begin, summarize, finish, mark_applied, observe_update; for a range a local scan; for a type the reduced
  // scans together and the products together; a widening for each of 16 bits; a scan of more than 192
  // segments takes two launches.
  std::uint64_t launches = 5;
  std::set<ElementType> types;
  for (const RangeData& r : plan.ranges) {
    const bool half = r.type == ElementType::kFp16 || r.type == ElementType::kBf16;
    types.insert(r.type);
    launches += 1 + half + (r.counts.size() > 192 ? 2 : 0);
  }
  launches += 2 * types.size();
  EXPECT_EQ(standin.count("cuLaunchKernel"), launches);
  EXPECT_EQ(standin.count("cuMemsetD8Async"), 1u);
  EXPECT_EQ(standin.count("cuMemcpyDtoHAsync_v2"), 3u);
  EXPECT_EQ(standin.count("cuEventRecord"), 1u);
  EXPECT_EQ(standin.count("cuStreamWaitEvent"), 1u);
  EXPECT_EQ(standin.count("cuStreamIsCapturing"), 1u);
  EXPECT_EQ(cuda->synchronize(stream.get()), device::Code::kOk);
}

TEST(CudaStep, AWatcherSeesEveryCall) {
  class Counter final : public device::cuda::CallWatcher {
   public:
    void called(const char* function, device::cuda::Result) noexcept override { ++seen[function]; }
    std::map<std::string, std::uint64_t> seen;
  };
  Counter counter;
  StandIn standin;
  std::string error;
  auto driver = standin.open(&error);
  ASSERT_NE(driver, nullptr) << error;
  driver->watch(&counter);
  standin.control().forget_calls();
  const auto cuda = device::CudaDevice::create({driver, 0, StandIn::image()}, &error);
  ASSERT_NE(cuda, nullptr) << error;
  std::map<std::string, std::uint64_t> reached;
  for (const standin::CallRecord& c : standin.calls()) ++reached[c.name];
  EXPECT_EQ(counter.seen, reached);
}

// Without a context of its own the caller gets none left behind, with another one gets that one back.
TEST(CudaStep, RestoresTheCallersContext) {
  standin::Options options;
  options.devices = 2;
  StandIn standin(options);
  const auto cuda = standin.device(1);
  ASSERT_NE(cuda, nullptr);
  std::string error;
  const auto driver = standin.open(&error);
  device::cuda::ContextHandle current = nullptr;
  const auto now = [&] {
    EXPECT_EQ(driver->call(driver->api().CtxGetCurrent, &current), device::cuda::Result::kSuccess);
    return current;
  };
  EXPECT_EQ(now(), nullptr);
  const JobPlan plan = random_plan(test_seed());
  EXPECT_EQ(DeviceJob::run(*cuda, nullptr, plan, &error).steps.size(), plan.steps.size()) << error;
  EXPECT_EQ(now(), nullptr);
  const JobStream other(standin, 0);
  EXPECT_EQ(DeviceJob::run(*cuda, nullptr, plan, &error).steps.size(), plan.steps.size()) << error;
  EXPECT_EQ(now(), other.context());
  // The other device's stream is refused, whoever is current.
  GateBlock* g = static_cast<GateBlock*>(cuda->allocate(sizeof(GateBlock), device::Memory::kDevice));
  EXPECT_EQ(cuda->begin_step(other.get(), {.g = g}), device::Code::kDriver);
  EXPECT_EQ(std::string(cuda->last_error()),
            "begin_step: cuLaunchKernel(stepgate_begin_step): CUDA_ERROR_INVALID_HANDLE (400)");
  EXPECT_EQ(now(), other.context());
  cuda->release(g, device::Memory::kDevice);
  EXPECT_GT(standin.control().account().misuses, 0);
  standin.control().configure(options);  // that misuse was meant
}

// One device, two gates of two threads, a stream each.
TEST(CudaStep, TwoThreadsOnOneDevice) {
  StandIn standin;
  const auto cuda = standin.device();
  ASSERT_NE(cuda, nullptr);
  const JobPlan plans[] = {random_plan(test_seed()), random_plan(test_seed() + 1)};
  JobTrace traces[2];
  std::string errors[2];
  const auto work = [&](int i) {
    const JobStream stream(standin);
    traces[i] = DeviceJob::run(*cuda, stream.get(), plans[i], &errors[i]);
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(errors[i], "");
    EXPECT_EQ(difference(traces[i], on_host(plans[i])), "") << i;
  }
}

TEST(CudaStep, TwoDevicesSideBySide) {
  standin::Options options;
  options.devices = 2;
  options.max_delay_us = 50;
  options.seed = test_seed();
  StandIn standin(options);
  const auto first = standin.device(0);
  const auto second = standin.device(1);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  const JobPlan plans[] = {random_plan(test_seed()), random_plan(test_seed() + 1)};
  DeviceJob a(*first, nullptr, plans[0]);
  DeviceJob b(*second, nullptr, plans[1]);
  JobTrace traces[2];
  std::string error;
  ASSERT_TRUE(a.usable() && b.usable() && a.start(&error) && b.start(&error)) << error;
  ASSERT_TRUE(a.enqueue_step(Spoil::kNothing, &error) && b.enqueue_step(Spoil::kVeto, &error)) << error;
  ASSERT_TRUE(b.collect(&traces[1], &error) && a.collect(&traces[0], &error)) << error;
  device::HostDevice host;
  const Spoil spoils[] = {Spoil::kNothing, Spoil::kVeto};
  for (int i = 0; i < 2; ++i) {
    DeviceJob job(host, nullptr, plans[i]);
    JobTrace want;
    ASSERT_TRUE(job.start(&error) && job.enqueue_step(spoils[i], &error) && job.collect(&want, &error));
    EXPECT_EQ(difference(traces[i], want), "") << i;
  }
}

}  // namespace
}  // namespace stepgate::test

// Every driver call of a device's life failing once: an answer that names it, nothing left behind,
// nothing that hangs.
#include <gtest/gtest.h>

#include <string>

#include "collectives/device/host/host_device.h"
#include "tests/collectives/device_cuda_driver/device_job.h"
#include "tests/collectives/device_cuda_driver/standin.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

constexpr int kLaunchFailed = 719;

JobPlan short_plan() {
  JobPlan plan = random_plan(test_seed());
  plan.ranges.erase(plan.ranges.begin() + 3);
  plan.ranges.erase(plan.ranges.begin());
  for (RangeData& r : plan.ranges) {
    r.counts = {5, 6};
    r.bytes.resize(11 * element_size(r.type));
  }
  plan.steps = {Spoil::kNothing};
  return plan;
}

// Opens, creates, runs and destroys; what went wrong, or "".
std::string whole_life(const StandIn& standin, const JobPlan& plan, JobTrace* trace) {
  std::string error;
  const auto driver = standin.open(&error);
  if (driver == nullptr) return error;
  const auto cuda = device::CudaDevice::create({driver, 0, StandIn::image()}, &error);
  if (cuda == nullptr) return error;
  *trace = DeviceJob::run(*cuda, nullptr, plan, &error);
  return error;
}

// Calls whose one failure changes nothing: releases release all the same, contexts are tried again.
bool harmless(const std::string& call) {
  for (const char* name : {"cuDevicePrimaryCtxRelease_v2", "cuCtxPopCurrent_v2", "cuCtxPushCurrent_v2",
                           "cuCtxGetCurrent", "cuMemFree_v2", "cuMemFreeHost", "cuModuleUnload",
                           "cuStreamDestroy_v2", "cuEventDestroy_v2", "cuThreadExchangeStreamCaptureMode"}) {
    if (call == name) return true;
  }
  return false;
}

TEST(CudaFaults, EveryCallFailingOnce) {
  const JobPlan plan = short_plan();
  JobTrace want;
  std::vector<standin::CallRecord> calls;
  {
    StandIn standin;
    ASSERT_EQ(whole_life(standin, plan, &want), "");
    ASSERT_EQ(want.steps.size(), 1u);
    calls = standin.calls();
  }
  ASSERT_GT(calls.size(), 150u);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string name = calls[i].name;
    StandIn standin;
    standin.control().fail(nullptr, i, kLaunchFailed, 1);
    JobTrace got;
    const std::string error = whole_life(standin, plan, &got);
    ASSERT_EQ(standin.control().faults_hit(), 1u) << i << ' ' << name;
    ASSERT_TRUE(standin.control().account().empty()) << i << ' ' << name;
    if (harmless(name)) {
      EXPECT_EQ(error, "") << i << ' ' << name;
      EXPECT_EQ(difference(got, want), "") << i << ' ' << name;
    } else {
      EXPECT_NE(error.find(name), std::string::npos) << i << ' ' << name << ": " << error;
      EXPECT_NE(error.find("CUDA_ERROR_LAUNCH_FAILED (719)"), std::string::npos) << error;
    }
  }
}

// From one call on the device is gone: every later call fails, those on contexts apart.
TEST(CudaFaults, ADeviceThatIsLost) {
  const JobPlan plan = short_plan();
  std::size_t calls = 0;
  {
    StandIn standin;
    JobTrace trace;
    ASSERT_EQ(whole_life(standin, plan, &trace), "");
    for (const standin::CallRecord& c : standin.calls()) calls += std::string(c.name).rfind("cuCtx", 0) != 0;
  }
  for (std::size_t i = 0; i < calls; i += 3) {
    StandIn standin;
    standin.control().fail(standin::kAnyWork, i, kLaunchFailed, ~std::uint64_t{0});
    JobTrace trace;
    whole_life(standin, plan, &trace);
    ASSERT_GT(standin.control().faults_hit(), 0u) << i;
    ASSERT_TRUE(standin.control().account().empty()) << i;
  }
}

// After a failure the same device works on, with the right bits: nothing half done stays in the way.
TEST(CudaFaults, TheNextStepIsRight) {
  const JobPlan plan = random_plan(test_seed());
  device::HostDevice host;
  std::string error;
  const JobTrace want = DeviceJob::run(host, nullptr, plan, &error);
  StandIn standin;
  const auto cuda = standin.device();
  ASSERT_NE(cuda, nullptr);
  for (const std::uint64_t launch : {3u, 6u, 14u, 15u, 16u, 20u}) {
    {
      DeviceJob job(*cuda, nullptr, plan);
      ASSERT_TRUE(job.usable() && job.start(&error)) << error;
      standin.control().fail("cuLaunchKernel", launch, kLaunchFailed, 1);
      EXPECT_FALSE(job.enqueue_step(Spoil::kNothing, &error)) << launch;
      EXPECT_EQ(cuda->synchronize(nullptr), device::Code::kOk);
    }
    error.clear();
    EXPECT_EQ(difference(DeviceJob::run(*cuda, nullptr, plan, &error), want), "") << launch << error;
  }
}

}  // namespace
}  // namespace stepgate::test

// Which device a gate works on.
#include "plugin/core/devices.h"

#include "plugin/core/process.h"
#include "tests/collectives/device_cuda_driver/standin.h"
#include "tests/plugin/cuda/stream_nccl.h"
#include "tests/plugin/variables.h"

namespace stepgate::test {
namespace {

using gate::DeviceChoice;
using gate::Devices;

// First in this file: a driver that a test has loaded stays loaded.
TEST(Devices, HostWithoutADriver) {
  Devices devices;
  std::string error;
  EXPECT_STREQ(devices.current(DeviceChoice::kAuto, &error)->name(), "host");
  EXPECT_STREQ(devices.current(DeviceChoice::kHost, &error)->name(), "host");
  EXPECT_EQ(error, "");
}

TEST(Devices, TheOneWhoseContextIsCurrent) {
  StandIn standin({.devices = 3});
  {
    Devices devices;
    std::string error;
    EXPECT_STREQ(devices.current(DeviceChoice::kAuto, &error)->name(), "host") << "no context is current";
    EXPECT_EQ(devices.current(DeviceChoice::kCuda, &error), nullptr);
    EXPECT_NE(error.find("STEPGATE_DEVICE=cuda"), std::string::npos) << error;
    device::Device* second = nullptr;
    {
      const JobStream job(standin, 2);
      second = devices.current(DeviceChoice::kAuto, &error);
      ASSERT_NE(second, nullptr) << error;
      EXPECT_EQ(static_cast<device::CudaDevice*>(second)->ordinal(), 2);
      EXPECT_STREQ(devices.current(DeviceChoice::kHost, &error)->name(), "host");
    }
    {
      const JobStream job(standin, 0);
      device::Device* const first = devices.current(DeviceChoice::kCuda, &error);
      ASSERT_NE(first, nullptr) << error;
      EXPECT_EQ(static_cast<device::CudaDevice*>(first)->ordinal(), 0);
    }
    const JobStream again(standin, 2);
    EXPECT_EQ(devices.current(DeviceChoice::kAuto, &error), second) << "one device, loaded once";
  }
}

// One thread that drives several devices, as after ncclCommInitAll.
TEST(Devices, ByNumberWhicheverIsCurrent) {
  StandIn standin({.devices = 3});
  Devices devices;
  std::string error;
  EXPECT_STREQ(devices.numbered(2, DeviceChoice::kAuto, &error)->name(), "host") << "no context is current";
  const JobStream job(standin, 1);
  device::Device* const other = devices.numbered(2, DeviceChoice::kAuto, &error);
  ASSERT_NE(other, nullptr) << error;
  EXPECT_EQ(static_cast<device::CudaDevice*>(other)->ordinal(), 2);
  device::Device* const here = devices.numbered(-1, DeviceChoice::kAuto, &error);
  ASSERT_NE(here, nullptr) << error;
  EXPECT_EQ(static_cast<device::CudaDevice*>(here)->ordinal(), 1);
  EXPECT_EQ(devices.current(DeviceChoice::kAuto, &error), here);
  EXPECT_STREQ(devices.numbered(2, DeviceChoice::kHost, &error)->name(), "host");
  EXPECT_EQ(devices.numbered(7, DeviceChoice::kAuto, &error), nullptr);
  EXPECT_NE(error, "");
}

// ... whose groups say nothing of whose turn it is.
TEST(Devices, EachOfTheListIsObserved) {
  StandIn standin({.devices = 3});
  const gate::Variables variables = {
      {"STEPGATE_MODE", "observe"}, {"STEPGATE_LOG", "off"}, {"STEPGATE_METRICS_PORT", "0"}};
  gate::Process process(gate::environment(variables), {}, StreamNccl::services());
  const JobStream job(standin, 1);
  for (const int ordinal : {0, 2, 1}) process.comm_created(ordinal);
  EXPECT_EQ(process.observed_devices(), 3u);
  process.comm_created(-1);
  EXPECT_EQ(process.observed_devices(), 3u) << "the thread's own is one of them";
  process.shut_down();
}

TEST(Devices, ADriverThatIsTooOldIsToldAndTheHostServes) {
  standin::Options options;
  options.driver_version = 12080;
  StandIn standin(options);
  Devices devices;
  std::string error;
  EXPECT_STREQ(devices.current(DeviceChoice::kAuto, &error)->name(), "host");
  EXPECT_NE(error.find("12.8"), std::string::npos) << error;
  error.clear();
  EXPECT_EQ(devices.current(DeviceChoice::kCuda, &error), nullptr);
  EXPECT_NE(error.find("12.8"), std::string::npos) << error;
}

TEST(Devices, KernelsThatDoNotFitAreToldWithTheWayOut) {
  standin::Options options;
  options.knows_image = false;
  StandIn standin(options);
  const JobStream job(standin);
  Devices devices;
  std::string error;
  EXPECT_EQ(devices.current(DeviceChoice::kAuto, &error), nullptr);
  EXPECT_NE(error.find("STEPGATE_DEVICE=host"), std::string::npos) << error;
}

}  // namespace
}  // namespace stepgate::test

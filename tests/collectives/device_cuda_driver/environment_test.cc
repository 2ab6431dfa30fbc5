// What the stand-in takes from the environment (CMakeLists.txt sets it): no test here configures it.
#include <gtest/gtest.h>

#include <string>

#include "tests/collectives/device_cuda_driver/standin.h"

namespace stepgate::test {
namespace {

using device::CudaDevice;
using device::cuda::Driver;

TEST(StandInEnvironment, DevicesVersionAndAFault) {
  std::string error;
  const auto driver = Driver::open({StandIn::path(), 13000}, &error);
  ASSERT_NE(driver, nullptr) << error;
  EXPECT_EQ(driver->device_count(), 3);
  EXPECT_EQ(driver->version(), 13010);
  const auto first = CudaDevice::create({driver, 2, StandIn::image()}, &error);
  EXPECT_NE(first, nullptr) << error;
  EXPECT_EQ(CudaDevice::create({driver, 2, StandIn::image()}, &error), nullptr);
  EXPECT_EQ(error, "create: cuStreamCreate: CUDA_ERROR_OUT_OF_MEMORY (2)");
  EXPECT_NE(CudaDevice::create({driver, 2, StandIn::image()}, &error), nullptr) << error;
}

}  // namespace
}  // namespace stepgate::test

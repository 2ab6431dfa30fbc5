// Our few declarations of the driver against NVIDIA's header, where that is there; and what is there where no
// driver is loaded.
#include "collectives/hostnccl/cuda_functions.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "collectives/hostnccl/cuda_driver.h"
#include "collectives/hostnccl/memory_place.h"
#include "tests/collectives/nvidia_declarations.h"

#if defined(STEPGATE_HAVE_CUDA_H)
#include <cuda.h>
#endif

namespace stepgate::hostnccl {
namespace {

TEST(HostncclCuda, NoDriverIsLoadedForIt) {
  CudaLoader loader;
  EXPECT_EQ(loader.find(), nullptr) << "this test has not loaded one";
  float value = 0;
  Place place;
  const Request request{Collective::kAllReduce, &value, &value, 1, ncclFloat32, ncclSum, 0};
  EXPECT_TRUE(place_of(loader.find(), request, 0, 2, &place).ok());
  EXPECT_FALSE(place.device());
}

TEST(HostncclCuda, FindsADriverThatIsLoadedLater) {
  CudaLoader loader;
  ASSERT_EQ(loader.find(), nullptr);
  ASSERT_NE(dlopen(STEPGATE_STANDIN_CUDA, RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
  const Cuda* cuda = loader.find();
  ASSERT_NE(cuda, nullptr);
  EXPECT_TRUE(cuda->complete().ok()) << cuda->missing;
  EXPECT_EQ(loader.find(), cuda);
}

#if defined(STEPGATE_HAVE_CUDA_H)

using namespace cuda;  // NOLINT(google-build-using-namespace): the list's names

#define STEPGATE_TEST_SAME(NAME, SUFFIX, PARAMETERS) STEPGATE_TEST_SAME_AS_NVIDIAS(NAME, Result, PARAMETERS)
STEPGATE_HOSTNCCL_CUDA(STEPGATE_TEST_SAME)

TEST(HostncclCuda, FunctionsAreNvidias){STEPGATE_HOSTNCCL_CUDA(STEPGATE_TEST_EXPORT)}

TEST(HostncclCuda, ValuesAreNvidias) {
  EXPECT_EQ(kSuccess, int{CUDA_SUCCESS});
  EXPECT_EQ(kInvalidValue, int{CUDA_ERROR_INVALID_VALUE});
  EXPECT_EQ(kNotInitialized, int{CUDA_ERROR_NOT_INITIALIZED});
  EXPECT_EQ(kDeinitialized, int{CUDA_ERROR_DEINITIALIZED});
  EXPECT_EQ(kStubLibrary, int{CUDA_ERROR_STUB_LIBRARY});
  EXPECT_EQ(kNoDevice, int{CUDA_ERROR_NO_DEVICE});
  EXPECT_EQ(kInvalidContext, int{CUDA_ERROR_INVALID_CONTEXT});
  EXPECT_EQ(kAttributeContext, int{CU_POINTER_ATTRIBUTE_CONTEXT});
  EXPECT_EQ(kAttributeMemoryType, int{CU_POINTER_ATTRIBUTE_MEMORY_TYPE});
  EXPECT_EQ(kAttributeIsManaged, int{CU_POINTER_ATTRIBUTE_IS_MANAGED});
  EXPECT_EQ(kAttributeDeviceOrdinal, int{CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL});
  EXPECT_EQ(kMemoryTypeHost, unsigned{CU_MEMORYTYPE_HOST});
  EXPECT_EQ(kCaptureRelaxed, int{CU_STREAM_CAPTURE_MODE_RELAXED});
  EXPECT_EQ(kCaptureNone, int{CU_STREAM_CAPTURE_STATUS_NONE});
  EXPECT_EQ(kCaptureActive, int{CU_STREAM_CAPTURE_STATUS_ACTIVE});
  EXPECT_EQ(kHostAllocPortable, unsigned{CU_MEMHOSTALLOC_PORTABLE});
  EXPECT_EQ(kEventDisableTiming, unsigned{CU_EVENT_DISABLE_TIMING});
}

#else

TEST(HostncclCuda, FunctionsAreNvidias) {
  GTEST_SKIP() << "this machine has no cuda.h (looked for at configure time)";
}

#endif

}  // namespace
}  // namespace stepgate::hostnccl

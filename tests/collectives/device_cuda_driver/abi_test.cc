// Our declaration of the driver's ABI against NVIDIA's, line by line, where cuda.h is there.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "collectives/device/cuda/driver_abi.h"
#include "tests/collectives/nvidia_declarations.h"

#if defined(STEPGATE_HAVE_CUDA_H)
#include <cuda.h>
#endif

namespace stepgate::test {
namespace {

using namespace device::cuda;

struct Declared {
  std::string name, exported;
};

std::vector<Declared> declared() {
#define STEPGATE_TEST_NAME(NAME, SUFFIX, PARAMETERS) {"cu" #NAME, "cu" #NAME SUFFIX},
  return {STEPGATE_CUDA_REQUIRED(STEPGATE_TEST_NAME) STEPGATE_CUDA_OPTIONAL(STEPGATE_TEST_NAME)};
#undef STEPGATE_TEST_NAME
}

TEST(CudaAbi, NamesAreUnique) {
  std::set<std::string> names;
  for (const Declared& d : declared()) EXPECT_TRUE(names.insert(d.name).second) << d.name;
  EXPECT_GT(names.size(), 40u);
}

#if defined(STEPGATE_HAVE_CUDA_H)

#define STEPGATE_TEST_SAME(NAME, SUFFIX, PARAMETERS) STEPGATE_TEST_SAME_AS_NVIDIAS(NAME, Result, PARAMETERS)

STEPGATE_CUDA_REQUIRED(STEPGATE_TEST_SAME)
STEPGATE_CUDA_OPTIONAL(STEPGATE_TEST_SAME)

TEST(CudaAbi, FunctionsAreNvidias) {
  STEPGATE_CUDA_REQUIRED(STEPGATE_TEST_EXPORT)
  STEPGATE_CUDA_OPTIONAL(STEPGATE_TEST_EXPORT)
}

template <class Ours, class Theirs>
void same(Ours ours, Theirs theirs, const char* name) {
  EXPECT_EQ(static_cast<long long>(ours), static_cast<long long>(theirs)) << name;
}

TEST(CudaAbi, ValuesAreNvidias) {
#define STEPGATE_TEST_VALUE(OURS, THEIRS) same(OURS, THEIRS, #THEIRS)
  STEPGATE_TEST_VALUE(Result::kSuccess, CUDA_SUCCESS);
  STEPGATE_TEST_VALUE(Result::kInvalidValue, CUDA_ERROR_INVALID_VALUE);
  STEPGATE_TEST_VALUE(Result::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  STEPGATE_TEST_VALUE(Result::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
  STEPGATE_TEST_VALUE(Result::kNoDevice, CUDA_ERROR_NO_DEVICE);
  STEPGATE_TEST_VALUE(Result::kInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
  STEPGATE_TEST_VALUE(Result::kInvalidImage, CUDA_ERROR_INVALID_IMAGE);
  STEPGATE_TEST_VALUE(Result::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
  STEPGATE_TEST_VALUE(Result::kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
  STEPGATE_TEST_VALUE(Result::kUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  STEPGATE_TEST_VALUE(Result::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
  STEPGATE_TEST_VALUE(Result::kNotFound, CUDA_ERROR_NOT_FOUND);
  STEPGATE_TEST_VALUE(Result::kNotReady, CUDA_ERROR_NOT_READY);
  STEPGATE_TEST_VALUE(Result::kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
  STEPGATE_TEST_VALUE(Result::kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
  STEPGATE_TEST_VALUE(Result::kNotSupported, CUDA_ERROR_NOT_SUPPORTED);
  STEPGATE_TEST_VALUE(Result::kSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
  STEPGATE_TEST_VALUE(Result::kStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  STEPGATE_TEST_VALUE(Result::kStreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  STEPGATE_TEST_VALUE(Result::kStreamCaptureMerge, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  STEPGATE_TEST_VALUE(Result::kStreamCaptureUnmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  STEPGATE_TEST_VALUE(Result::kStreamCaptureUnjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  STEPGATE_TEST_VALUE(Result::kStreamCaptureIsolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  STEPGATE_TEST_VALUE(Result::kStreamCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  STEPGATE_TEST_VALUE(Result::kUnknown, CUDA_ERROR_UNKNOWN);
  STEPGATE_TEST_VALUE(DeviceAttribute::kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  STEPGATE_TEST_VALUE(DeviceAttribute::kCanMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
  STEPGATE_TEST_VALUE(DeviceAttribute::kUnifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
  STEPGATE_TEST_VALUE(DeviceAttribute::kComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  STEPGATE_TEST_VALUE(DeviceAttribute::kComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  STEPGATE_TEST_VALUE(FunctionAttribute::kMaxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  STEPGATE_TEST_VALUE(FunctionAttribute::kLocalSizeBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  STEPGATE_TEST_VALUE(FunctionAttribute::kNumRegs, CU_FUNC_ATTRIBUTE_NUM_REGS);
  STEPGATE_TEST_VALUE(PointerAttribute::kContext, CU_POINTER_ATTRIBUTE_CONTEXT);
  STEPGATE_TEST_VALUE(PointerAttribute::kMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
  STEPGATE_TEST_VALUE(PointerAttribute::kDevicePointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
  STEPGATE_TEST_VALUE(PointerAttribute::kHostPointer, CU_POINTER_ATTRIBUTE_HOST_POINTER);
  STEPGATE_TEST_VALUE(PointerAttribute::kIsManaged, CU_POINTER_ATTRIBUTE_IS_MANAGED);
  STEPGATE_TEST_VALUE(PointerAttribute::kDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
  STEPGATE_TEST_VALUE(MemoryType::kHost, CU_MEMORYTYPE_HOST);
  STEPGATE_TEST_VALUE(MemoryType::kDevice, CU_MEMORYTYPE_DEVICE);
  STEPGATE_TEST_VALUE(CaptureMode::kGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL);
  STEPGATE_TEST_VALUE(CaptureMode::kThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  STEPGATE_TEST_VALUE(CaptureMode::kRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
  STEPGATE_TEST_VALUE(CaptureStatus::kNone, CU_STREAM_CAPTURE_STATUS_NONE);
  STEPGATE_TEST_VALUE(CaptureStatus::kActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  STEPGATE_TEST_VALUE(CaptureStatus::kInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  STEPGATE_TEST_VALUE(SymbolStatus::kFound, CU_GET_PROC_ADDRESS_SUCCESS);
  STEPGATE_TEST_VALUE(SymbolStatus::kNotFound, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  STEPGATE_TEST_VALUE(SymbolStatus::kVersionTooOld, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  STEPGATE_TEST_VALUE(kMemAttachGlobal, CU_MEM_ATTACH_GLOBAL);
  STEPGATE_TEST_VALUE(kHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE);
  STEPGATE_TEST_VALUE(kHostAllocDeviceMap, CU_MEMHOSTALLOC_DEVICEMAP);
  STEPGATE_TEST_VALUE(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
  STEPGATE_TEST_VALUE(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
#undef STEPGATE_TEST_VALUE
  static_assert(std::is_same_v<DevicePtr, CUdeviceptr> && std::is_same_v<DeviceId, CUdevice>);
}

#else

TEST(CudaAbi, FunctionsAreNvidias) {
  GTEST_SKIP() << "cuda.h is not on this machine; our declarations are not compared with NVIDIA's";
}

TEST(CudaAbi, ValuesAreNvidias) {
  GTEST_SKIP() << "cuda.h is not on this machine; our values are not compared with NVIDIA's";
}

#endif

}  // namespace
}  // namespace stepgate::test

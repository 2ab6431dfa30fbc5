// Start-up, devices, contexts, errors.
#include <cstdio>

#include "tests/standin_cuda/driver/api.h"
#include "tests/standin_cuda/driver/environment.h"
#include "tests/standin_cuda/driver/world.h"

namespace stepgate::standin::api {
namespace {

// A Hopper, but few processors: a CPU has to play them all.
constexpr int kMultiprocessors = 4;
constexpr int kCapabilityMajor = 9, kCapabilityMinor = 0;

bool is_device(int device) {
  return world().context(device) != nullptr;
}

int attribute_of(DeviceAttribute attribute) {
  switch (attribute) {
    case DeviceAttribute::kMultiprocessorCount: return kMultiprocessors;
    case DeviceAttribute::kCanMapHostMemory: return 1;
    case DeviceAttribute::kUnifiedAddressing: return world().options().unified_addressing;
    case DeviceAttribute::kComputeCapabilityMajor: return kCapabilityMajor;
    case DeviceAttribute::kComputeCapabilityMinor: return kCapabilityMinor;
  }
  return -1;
}

const char* name_of(Result error) {
  switch (error) {
    case Result::kSuccess: return "CUDA_SUCCESS";
    case Result::kInvalidValue: return "CUDA_ERROR_INVALID_VALUE";
    case Result::kOutOfMemory: return "CUDA_ERROR_OUT_OF_MEMORY";
    case Result::kNotInitialized: return "CUDA_ERROR_NOT_INITIALIZED";
    case Result::kNoDevice: return "CUDA_ERROR_NO_DEVICE";
    case Result::kInvalidDevice: return "CUDA_ERROR_INVALID_DEVICE";
    case Result::kInvalidImage: return "CUDA_ERROR_INVALID_IMAGE";
    case Result::kInvalidContext: return "CUDA_ERROR_INVALID_CONTEXT";
    case Result::kNoBinaryForGpu: return "CUDA_ERROR_NO_BINARY_FOR_GPU";
    case Result::kUnsupportedPtxVersion: return "CUDA_ERROR_UNSUPPORTED_PTX_VERSION";
    case Result::kInvalidHandle: return "CUDA_ERROR_INVALID_HANDLE";
    case Result::kNotFound: return "CUDA_ERROR_NOT_FOUND";
    case Result::kNotReady: return "CUDA_ERROR_NOT_READY";
    case Result::kIllegalAddress: return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case Result::kLaunchFailed: return "CUDA_ERROR_LAUNCH_FAILED";
    case Result::kNotSupported: return "CUDA_ERROR_NOT_SUPPORTED";
    case Result::kSystemDriverMismatch: return "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
    case Result::kStreamCaptureUnsupported: return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    case Result::kStreamCaptureInvalidated: return "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
    case Result::kStreamCaptureMerge: return "CUDA_ERROR_STREAM_CAPTURE_MERGE";
    case Result::kStreamCaptureUnmatched: return "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED";
    case Result::kStreamCaptureUnjoined: return "CUDA_ERROR_STREAM_CAPTURE_UNJOINED";
    case Result::kStreamCaptureIsolation: return "CUDA_ERROR_STREAM_CAPTURE_ISOLATION";
    case Result::kStreamCaptureImplicit: return "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT";
    case Result::kUnknown: return "CUDA_ERROR_UNKNOWN";
  }
  return nullptr;
}

}  // namespace

Result Init(unsigned flags) {
  return entry("cuInit", [&] { return flags == 0 ? Result::kSuccess : Result::kInvalidValue; });
}

Result DriverGetVersion(int* version) {
  return entry("cuDriverGetVersion", [&] {
    *version = world().options().driver_version;
    return Result::kSuccess;
  });
}

// Neither listed nor failed: they are how a failure is told.
Result GetErrorName(Result error, const char** text) {
  *text = name_of(error);
  return *text != nullptr ? Result::kSuccess : Result::kInvalidValue;
}

Result GetErrorString(Result error, const char** text) {
  return GetErrorName(error, text);
}

Result DeviceGetCount(int* count) {
  return entry("cuDeviceGetCount", [&] {
    *count = world().options().devices;
    return Result::kSuccess;
  });
}

Result DeviceGet(DeviceId* device, int ordinal) {
  return entry("cuDeviceGet", [&] {
    *device = ordinal;
    return is_device(ordinal) ? Result::kSuccess : Result::kInvalidDevice;
  });
}

Result DeviceGetName(char* name, int bytes, DeviceId device) {
  return entry("cuDeviceGetName", [&] {
    if (!is_device(device) || bytes <= 0) return Result::kInvalidDevice;
    std::snprintf(name, static_cast<std::size_t>(bytes), "CPU stand-in %d", device);
    return Result::kSuccess;
  });
}

Result DeviceGetAttribute(int* value, DeviceAttribute attribute, DeviceId device) {
  return entry("cuDeviceGetAttribute", [&] {
    if (!is_device(device)) return Result::kInvalidDevice;
    *value = attribute_of(attribute);
    return *value >= 0 ? Result::kSuccess : Result::kInvalidValue;
  });
}

Result DevicePrimaryCtxRetain(ContextHandle* context, DeviceId device) {
  return entry("cuDevicePrimaryCtxRetain", [&] { return world().retain(device, context); });
}

Result DevicePrimaryCtxRelease(DeviceId device) {
  return entry(
      "cuDevicePrimaryCtxRelease_v2", [&] { return world().release(device); }, true);
}

Result CtxGetCurrent(ContextHandle* context) {
  return entry("cuCtxGetCurrent", [&] {
    *context = World::current();
    return Result::kSuccess;
  });
}

Result CtxGetDevice(DeviceId* device) {
  return entry("cuCtxGetDevice", [&] {
    const ContextHandle current = World::current();
    if (current == nullptr) return Result::kInvalidContext;
    *device = current->device;
    return Result::kSuccess;
  });
}

Result CtxPushCurrent(ContextHandle context) {
  return entry("cuCtxPushCurrent_v2", [&] {
    if (context == nullptr || context->retains == 0) return world().misuse(Result::kInvalidContext);
    World::stack().push_back(context);
    return Result::kSuccess;
  });
}

Result CtxPopCurrent(ContextHandle* context) {
  return entry(
      "cuCtxPopCurrent_v2",
      [&] {
        if (World::stack().empty()) return world().misuse(Result::kInvalidContext);
        if (context != nullptr) *context = World::current();
        World::stack().pop_back();
        return Result::kSuccess;
      },
      true);
}

}  // namespace stepgate::standin::api

// The part of the CUDA driver API that this project calls, declared here: most machines that build
// it have no cuda.h. A test compares every line with NVIDIA's header where that is present.
//
// Types and values only; driver.h finds the functions at run time. The handles are NVIDIA's own
// opaque structs, so both headers may meet in one translation unit.
// Thread, order, lock, ownership: none here.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace stepgate::device::cuda {

using DeviceId = int;
using DevicePtr = unsigned long long;
using ContextHandle = CUctx_st*;
using ModuleHandle = CUmod_st*;
using FunctionHandle = CUfunc_st*;
using StreamHandle = CUstream_st*;
using EventHandle = CUevent_st*;
using GraphHandle = CUgraph_st*;
using GraphExecHandle = CUgraphExec_st*;
using HostFunction = void (*)(void*);

// CUresult, as far as the code names it; any other value may come.
enum class Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kUnsupportedPtxVersion = 222,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kSystemDriverMismatch = 803,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureMerge = 902,
  kStreamCaptureUnmatched = 903,
  kStreamCaptureUnjoined = 904,
  kStreamCaptureIsolation = 905,
  kStreamCaptureImplicit = 906,
  kUnknown = 999,
};

enum class DeviceAttribute : int {
  kMultiprocessorCount = 16,
  kCanMapHostMemory = 19,
  kUnifiedAddressing = 41,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
};

enum class FunctionAttribute : int { kMaxThreadsPerBlock = 0, kLocalSizeBytes = 3, kNumRegs = 4 };

enum class PointerAttribute : int {
  kContext = 1,
  kMemoryType = 2,
  kDevicePointer = 3,
  kHostPointer = 4,
  kIsManaged = 8,
  kDeviceOrdinal = 9,
};

enum class MemoryType : unsigned { kHost = 1, kDevice = 2 };
enum class CaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };
enum class CaptureStatus : int { kNone = 0, kActive = 1, kInvalidated = 2 };
enum class SymbolStatus : int { kFound = 0, kNotFound = 1, kVersionTooOld = 2 };

inline constexpr unsigned kMemAttachGlobal = 1;
inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr unsigned kHostAllocDeviceMap = 2;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;

// The release whose meaning of every name below is asked for; it is older than any driver that can
// load this project's kernels.
inline constexpr int kAbiVersion = 12000;

}  // namespace stepgate::device::cuda

// X(NAME, SUFFIX, PARAMETERS): cuNAME, exported as "cuNAME" SUFFIX, returns a Result.
// Required: without one of these there is no CudaDevice.
#define STEPGATE_CUDA_REQUIRED(X)                                                                      \
  X(Init, "", (unsigned flags))                                                                        \
  X(DriverGetVersion, "", (int* version))                                                              \
  X(GetErrorName, "", (Result error, const char** text))                                               \
  X(DeviceGetCount, "", (int* count))                                                                  \
  X(DeviceGet, "", (DeviceId * device, int ordinal))                                                   \
  X(DeviceGetName, "", (char* name, int bytes, DeviceId device))                                       \
  X(DeviceGetAttribute, "", (int* value, DeviceAttribute attribute, DeviceId device))                  \
  X(DevicePrimaryCtxRetain, "", (ContextHandle * context, DeviceId device))                            \
  X(DevicePrimaryCtxRelease, "_v2", (DeviceId device))                                                 \
  X(CtxGetCurrent, "", (ContextHandle * context))                                                      \
  X(CtxGetDevice, "", (DeviceId * device))                                                             \
  X(CtxPushCurrent, "_v2", (ContextHandle context))                                                    \
  X(CtxPopCurrent, "_v2", (ContextHandle * context))                                                   \
  X(ModuleLoadData, "", (ModuleHandle * module, const void* image))                                    \
  X(ModuleUnload, "", (ModuleHandle module))                                                           \
  X(ModuleGetFunction, "", (FunctionHandle * function, ModuleHandle module, const char* name))         \
  X(FuncGetAttribute, "", (int* value, FunctionAttribute attribute, FunctionHandle function))          \
  X(MemAlloc, "_v2", (DevicePtr * memory, std::size_t bytes))                                          \
  X(MemFree, "_v2", (DevicePtr memory))                                                                \
  X(MemHostAlloc, "", (void** memory, std::size_t bytes, unsigned flags))                              \
  X(MemFreeHost, "", (void* memory))                                                                   \
  X(MemHostGetDevicePointer, "_v2", (DevicePtr * alias, void* memory, unsigned flags))                 \
  X(MemsetD8Async, "", (DevicePtr to, unsigned char value, std::size_t bytes, StreamHandle stream))    \
  X(MemcpyHtoDAsync, "_v2", (DevicePtr to, const void* from, std::size_t bytes, StreamHandle stream))  \
  X(MemcpyDtoHAsync, "_v2", (void* to, DevicePtr from, std::size_t bytes, StreamHandle stream))        \
  X(MemcpyDtoDAsync, "_v2", (DevicePtr to, DevicePtr from, std::size_t bytes, StreamHandle stream))    \
  X(StreamCreate, "", (StreamHandle * stream, unsigned flags))                                         \
  X(StreamDestroy, "_v2", (StreamHandle stream))                                                       \
  X(StreamSynchronize, "", (StreamHandle stream))                                                      \
  X(ThreadExchangeStreamCaptureMode, "", (CaptureMode * mode))                                         \
  X(PointerGetAttribute, "", (void* value, PointerAttribute attribute, DevicePtr pointer))             \
  X(StreamIsCapturing, "", (StreamHandle stream, CaptureStatus * status))                              \
  X(StreamWaitEvent, "", (StreamHandle stream, EventHandle event, unsigned flags))                     \
  X(EventCreate, "", (EventHandle * event, unsigned flags))                                            \
  X(EventRecord, "", (EventHandle event, StreamHandle stream))                                         \
  X(EventDestroy, "_v2", (EventHandle event))                                                          \
  X(LaunchKernel, "",                                                                                  \
    (FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,     \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle stream, void** arguments, \
     void** extra))

// What the gates and the tests need beside it; a driver without one is still accepted.
#define STEPGATE_CUDA_OPTIONAL(X)                                                                         \
  X(GetErrorString, "", (Result error, const char** text))                                                \
  X(FuncLoad, "", (FunctionHandle function))                                                              \
  X(MemAllocManaged, "", (DevicePtr * memory, std::size_t bytes, unsigned flags))                         \
  X(MemHostRegister, "_v2", (void* memory, std::size_t bytes, unsigned flags))                            \
  X(MemHostUnregister, "", (void* memory))                                                                \
  X(MemcpyAsync, "", (DevicePtr to, DevicePtr from, std::size_t bytes, StreamHandle stream))              \
  X(StreamQuery, "", (StreamHandle stream))                                                               \
  X(EventQuery, "", (EventHandle event))                                                                  \
  X(EventSynchronize, "", (EventHandle event))                                                            \
  X(StreamBeginCapture, "_v2", (StreamHandle stream, CaptureMode mode))                                   \
  X(StreamEndCapture, "", (StreamHandle stream, GraphHandle * graph))                                     \
  X(GraphInstantiateWithFlags, "", (GraphExecHandle * exec, GraphHandle graph, unsigned long long flags)) \
  X(GraphLaunch, "", (GraphExecHandle exec, StreamHandle stream))                                         \
  X(GraphExecDestroy, "", (GraphExecHandle exec))                                                         \
  X(GraphDestroy, "", (GraphHandle graph))                                                                \
  X(LaunchHostFunc, "", (StreamHandle stream, HostFunction function, void* data))

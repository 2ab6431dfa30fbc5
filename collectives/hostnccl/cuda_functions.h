// The few functions of the CUDA driver that staging calls, declared here: most machines have no cuda.h,
// and this library may not see the device library's declarations. A test compares every line with
// NVIDIA's header where that is present.
//
// Types and values only; cuda_driver.h finds the functions.
// Thread, order, lock, ownership: none here.
#pragma once

#include <cstddef>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;

namespace stepgate::hostnccl::cuda {

using Result = int;
using Address = unsigned long long;
using Context = CUctx_st*;
using Stream = CUstream_st*;
using Event = CUevent_st*;
using HostFunction = void (*)(void*);

// CUresult, as far as the code decides by it; any other value may come.
inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kNotInitialized = 3;
inline constexpr Result kDeinitialized = 4;
inline constexpr Result kStubLibrary = 34;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kInvalidContext = 201;

inline constexpr int kAttributeContext = 1;
inline constexpr int kAttributeMemoryType = 2;
inline constexpr int kAttributeIsManaged = 8;
inline constexpr int kAttributeDeviceOrdinal = 9;
inline constexpr unsigned kMemoryTypeHost = 1;
inline constexpr int kCaptureRelaxed = 2;
inline constexpr int kCaptureNone = 0;
inline constexpr int kCaptureActive = 1;
inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr unsigned kEventDisableTiming = 2;

}  // namespace stepgate::hostnccl::cuda

// X(NAME, SUFFIX, PARAMETERS): cuNAME, exported as "cuNAME" SUFFIX, returns a Result. Enumerations pass
// as int.
#define STEPGATE_HOSTNCCL_CUDA(X)                                                             \
  X(PointerGetAttribute, "", (void* value, int attribute, Address pointer))                   \
  X(GetErrorName, "", (Result error, const char** text))                                      \
  X(CtxGetCurrent, "", (Context * context))                                                   \
  X(CtxPushCurrent, "_v2", (Context context))                                                 \
  X(CtxPopCurrent, "_v2", (Context * context))                                                \
  X(MemAlloc, "_v2", (Address * memory, std::size_t bytes))                                   \
  X(MemFree, "_v2", (Address memory))                                                         \
  X(MemHostAlloc, "", (void** memory, std::size_t bytes, unsigned flags))                     \
  X(MemFreeHost, "", (void* memory))                                                          \
  X(MemcpyDtoHAsync, "_v2", (void* to, Address from, std::size_t bytes, Stream stream))       \
  X(MemcpyHtoDAsync, "_v2", (Address to, const void* from, std::size_t bytes, Stream stream)) \
  X(MemcpyDtoDAsync, "_v2", (Address to, Address from, std::size_t bytes, Stream stream))     \
  X(StreamIsCapturing, "", (Stream stream, int* status))                                      \
  X(StreamWaitEvent, "", (Stream stream, Event event, unsigned flags))                        \
  X(LaunchHostFunc, "", (Stream stream, HostFunction function, void* data))                   \
  X(EventCreate, "", (Event * event, unsigned flags))                                         \
  X(EventRecord, "", (Event event, Stream stream))                                            \
  X(EventDestroy, "_v2", (Event event))                                                       \
  X(ThreadExchangeStreamCaptureMode, "", (int* mode))

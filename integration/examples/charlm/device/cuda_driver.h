// The CUDA driver as charlm needs it: libcuda.so.1, opened at run time, a dozen functions declared here.
//
//   CudaDriver driver("libcuda.so.1");
//   driver.call(driver.MemAlloc, &address, bytes);      throws with the function's name and the error's
//
// Thread: any. Order, lock: none. Ownership: the library stays open for the life of the process.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace stepgate::charlm {

using CudaResult = int;  // CUresult
using CudaAddress = unsigned long long;

inline constexpr CudaResult kCudaNoDevice = 100;
inline constexpr unsigned kCudaNonBlockingStream = 1;
inline constexpr int kCudaCaptureThreadLocal = 1;

// X(NAME, EXPORTED, PARAMETERS)
#define CHARLM_CUDA_FUNCTIONS(X)                                                                            \
  X(Init, "cuInit", (unsigned flags))                                                                       \
  X(GetErrorName, "cuGetErrorName", (CudaResult error, const char** text))                                  \
  X(DeviceGetCount, "cuDeviceGetCount", (int* count))                                                       \
  X(DeviceGet, "cuDeviceGet", (int* device, int ordinal))                                                   \
  X(PrimaryContextRetain, "cuDevicePrimaryCtxRetain", (CUctx_st * *context, int device))                    \
  X(PrimaryContextRelease, "cuDevicePrimaryCtxRelease_v2", (int device))                                    \
  X(ContextPush, "cuCtxPushCurrent_v2", (CUctx_st * context))                                               \
  X(ContextPop, "cuCtxPopCurrent_v2", (CUctx_st * *context))                                                \
  X(ModuleLoadData, "cuModuleLoadData", (CUmod_st * *module, const void* image))                            \
  X(ModuleUnload, "cuModuleUnload", (CUmod_st * module))                                                    \
  X(ModuleGetFunction, "cuModuleGetFunction", (CUfunc_st * *function, CUmod_st * module, const char* name)) \
  X(MemAlloc, "cuMemAlloc_v2", (CudaAddress * address, std::size_t bytes))                                  \
  X(MemFree, "cuMemFree_v2", (CudaAddress address))                                                         \
  X(HostAlloc, "cuMemHostAlloc", (void** memory, std::size_t bytes, unsigned flags))                        \
  X(HostFree, "cuMemFreeHost", (void* memory))                                                              \
  X(CopyToDevice, "cuMemcpyHtoDAsync_v2",                                                                   \
    (CudaAddress to, const void* from, std::size_t bytes, CUstream_st* stream))                             \
  X(CopyToHost, "cuMemcpyDtoHAsync_v2",                                                                     \
    (void* to, CudaAddress from, std::size_t bytes, CUstream_st* stream))                                   \
  X(StreamCreate, "cuStreamCreate", (CUstream_st * *stream, unsigned flags))                                \
  X(StreamDestroy, "cuStreamDestroy_v2", (CUstream_st * stream))                                            \
  X(StreamSynchronize, "cuStreamSynchronize", (CUstream_st * stream))                                       \
  X(LaunchKernel, "cuLaunchKernel",                                                                         \
    (CUfunc_st * function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,             \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream_st* stream, void** arguments,      \
     void** extra))                                                                                         \
  X(StreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream_st * stream, int mode))                        \
  X(StreamEndCapture, "cuStreamEndCapture", (CUstream_st * stream, CUgraph_st * *graph))                    \
  X(GraphInstantiate, "cuGraphInstantiateWithFlags",                                                        \
    (CUgraphExec_st * *exec, CUgraph_st * graph, unsigned long long flags))                                 \
  X(GraphDestroy, "cuGraphDestroy", (CUgraph_st * graph))                                                   \
  X(GraphLaunch, "cuGraphLaunch", (CUgraphExec_st * exec, CUstream_st * stream))                            \
  X(GraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec_st * exec))

class CudaDriver {
 public:
  template <class... P>
  struct Function {
    const char* name;
    CudaResult (*address)(P...) = nullptr;
  };
  template <class Signature>
  struct Of;
  template <class... P>
  struct Of<void(P...)> {
    using type = Function<P...>;
  };

#define CHARLM_CUDA_MEMBER(NAME, EXPORTED, PARAMETERS) Of<void PARAMETERS>::type NAME{EXPORTED};
  CHARLM_CUDA_FUNCTIONS(CHARLM_CUDA_MEMBER)
#undef CHARLM_CUDA_MEMBER

  // A name that the dynamic loader looks for, or a path. Initialises the driver. Throws std::runtime_error
  // where there is no driver, or none that works, and says what to do.
  explicit CudaDriver(const std::string& library);

  int device_count() const {
    return device_count_;
  }

  // Throws std::runtime_error.
  template <class... P, class... A>
  void call(const Function<P...>& function, A... arguments) const {
    if (const CudaResult r = function.address(arguments...); r != 0) fail(function.name, r);
  }
  // For destructors: what came of it.
  template <class... P, class... A>
  CudaResult try_call(const Function<P...>& function, A... arguments) const noexcept {
    return function.address(arguments...);
  }

  // "CUDA_ERROR_OUT_OF_MEMORY (2)".
  std::string error_text(CudaResult error) const;

 private:
  void resolve(void* library, const std::string& name);
  void start();
  [[noreturn]] void fail(const char* function, CudaResult error) const;

  int device_count_ = 0;
};

}  // namespace stepgate::charlm

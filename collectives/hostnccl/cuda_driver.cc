#include "collectives/hostnccl/cuda_driver.h"

#include <dlfcn.h>
#include <link.h>

namespace stepgate::hostnccl {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

// A process counts its loads; 0 is never the answer.
unsigned long long objects_loaded() {
  unsigned long long count = 1;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<unsigned long long*>(out) = info->dlpi_adds + 1;
        return 1;  // the first object tells
      },
      &count);
  return count;
}

template <typename Function>
void resolve(void* library, const char* exported, Function* function, std::string* missing) {
  *function = reinterpret_cast<Function>(dlsym(library, exported));
  if (*function != nullptr) return;
  if (!missing->empty()) *missing += ", ";
  *missing += exported;
}

void resolve_all(void* library, Cuda* cuda) {
#define STEPGATE_HOSTNCCL_RESOLVE(NAME, SUFFIX, PARAMETERS) \
  resolve(library, "cu" #NAME SUFFIX, &cuda->api.NAME, &cuda->missing);
  STEPGATE_HOSTNCCL_CUDA(STEPGATE_HOSTNCCL_RESOLVE)
#undef STEPGATE_HOSTNCCL_RESOLVE
}

}  // namespace

Outcome Cuda::told(cuda::Result result, const char* function) const {
  if (result == cuda::kSuccess) return success();
  const char* name = nullptr;
  if (api.GetErrorName == nullptr || api.GetErrorName(result, &name) != cuda::kSuccess) name = nullptr;
  return {ncclUnhandledCudaError, std::string(function) + ": " + (name != nullptr ? name : "error") + " (" +
                                      std::to_string(result) + ")"};
}

Outcome Cuda::complete() const {
  if (missing.empty()) return success();
  return {ncclSystemError, std::string("device memory needs what this ") + kLibrary + " lacks: " + missing};
}

bool has_no_device(cuda::Result result) noexcept {
  switch (result) {
    case cuda::kInvalidValue:
    case cuda::kNotInitialized:
    case cuda::kDeinitialized:
    case cuda::kStubLibrary:
    case cuda::kNoDevice:
    case cuda::kInvalidContext: return true;
    default: return false;
  }
}

const Cuda* CudaLoader::find() {
  if (const Cuda* found = found_.load(std::memory_order_acquire)) return found;
  const unsigned long long loaded = objects_loaded();
  if (looked_at_.load(std::memory_order_relaxed) == loaded) return nullptr;
  const std::lock_guard lock(mutex_);
  if (const Cuda* found = found_.load(std::memory_order_acquire)) return found;
  if (void* library = dlopen(kLibrary, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD)) {
    resolve_all(library, &cuda_);
    // Without it no pointer can be asked what it is: the same as no driver.
    if (cuda_.api.PointerGetAttribute != nullptr) found_.store(&cuda_, std::memory_order_release);
  }
  looked_at_.store(loaded, std::memory_order_relaxed);
  return found_.load(std::memory_order_acquire);
}

ContextScope::ContextScope(const Cuda& cuda, cuda::Context context) : cuda_(cuda) {
  cuda::Context current = nullptr;
  outcome_ = cuda_.told(cuda_.api.CtxGetCurrent(&current), "cuCtxGetCurrent");
  if (!outcome_.ok() || current == context) return;
  outcome_ = cuda_.told(cuda_.api.CtxPushCurrent(context), "cuCtxPushCurrent");
  pushed_ = outcome_.ok();
}

ContextScope::~ContextScope() {
  cuda::Context popped = nullptr;
  if (pushed_) (void)cuda_.api.CtxPopCurrent(&popped);
}

RelaxedCapture::RelaxedCapture(const Cuda& cuda) : cuda_(cuda) {
  outcome_ =
      cuda_.told(cuda_.api.ThreadExchangeStreamCaptureMode(&mode_), "cuThreadExchangeStreamCaptureMode");
}

RelaxedCapture::~RelaxedCapture() {
  if (outcome_.ok()) (void)cuda_.api.ThreadExchangeStreamCaptureMode(&mode_);
}

}  // namespace stepgate::hostnccl

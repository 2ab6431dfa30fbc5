// The CUDA driver that the process has loaded, and what every use of it needs around it.
//
//   const Cuda* cuda = loader.find();          // NULL: nobody here has loaded a driver
//   const ContextScope scope(*cuda, context);
//   if (!scope.ok()) return scope.outcome();
//   Outcome o = cuda->told(cuda->api.EventCreate(&event, 0), "cuEventCreate");
//
// hostnccl never loads a driver: memory of a device can only come from one that is there already, so a
// program on host memory pays one look at the loader's counter per call.
//
// Threads: any. Lock: the loader's own, while it looks. Ownership: what is found is never closed.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "collectives/hostnccl/cuda_functions.h"
#include "collectives/hostnccl/outcome.h"

namespace stepgate::hostnccl {

struct Cuda {
  struct Functions {
#define STEPGATE_HOSTNCCL_FIELD(NAME, SUFFIX, PARAMETERS) cuda::Result(*NAME) PARAMETERS = nullptr;
    // The fields' types are written with the names of that namespace.
    using Result = cuda::Result;
    using Address = cuda::Address;
    using Context = cuda::Context;
    using Stream = cuda::Stream;
    using Event = cuda::Event;
    using HostFunction = cuda::HostFunction;
    STEPGATE_HOSTNCCL_CUDA(STEPGATE_HOSTNCCL_FIELD)
#undef STEPGATE_HOSTNCCL_FIELD
  };
  Functions api;
  std::string missing;  // names that the library lacks

  // A failure as ncclUnhandledCudaError, with the function's name and the driver's word for it.
  Outcome told(cuda::Result result, const char* function) const;
  // Whether memory of a device can be served at all.
  Outcome complete() const;
};

// Answers of a driver that has no device, or has not been started, or does not know the pointer: the caller
// works on the host.
bool has_no_device(cuda::Result result) noexcept;

class CudaLoader {
 public:
  // Asks again only when something has been loaded since it last looked.
  const Cuda* find();

 private:
  std::atomic<const Cuda*> found_{nullptr};
  std::atomic<unsigned long long> looked_at_{0};  // how many objects had been loaded by then
  std::mutex mutex_;
  Cuda cuda_;
};

// Makes a context current where another or none is, and puts that back. A failure to put it back is not
// reported: what was asked for has been done by then.
class ContextScope {
 public:
  ContextScope(const Cuda& cuda, cuda::Context context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  const Outcome& outcome() const noexcept { return outcome_; }

 private:
  const Cuda& cuda_;
  bool pushed_ = false;
  Outcome outcome_;
};

// Lets this thread allocate while a stream captures somewhere.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Cuda& cuda);
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

  const Outcome& outcome() const noexcept { return outcome_; }

 private:
  const Cuda& cuda_;
  int mode_ = cuda::kCaptureRelaxed;
  Outcome outcome_;
};

}  // namespace stepgate::hostnccl

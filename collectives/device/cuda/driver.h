// Driver: libcuda.so.1, opened at run time. Nothing of this project links it.
//
//   std::string error;
//   std::shared_ptr<Driver> driver = Driver::open({}, &error);  // nullptr: error says what to do
//   Result r = driver->call(driver->api().MemAlloc, &memory, bytes);
//
// Every call to the driver goes through call(), where a watcher sees it: tests hold a step against
// a list of what may not occur in it.
// Threads: open() on the control path; call() from any thread. Lock: none. The watcher is set
// before the first call from another thread, and outlives them all.
// Ownership: shared by all devices. The library stays open for the life of the process; drivers keep
// threads of their own, so it cannot be closed safely.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "collectives/device/cuda/driver_abi.h"

namespace stepgate::device::cuda {

template <class Signature>
struct Function;

template <class... P>
struct Function<Result(P...)> {
  const char* name;
  Result (*address)(P...) = nullptr;
};

struct DriverApi {
#define STEPGATE_CUDA_MEMBER(NAME, SUFFIX, PARAMETERS) Function<Result PARAMETERS> NAME{"cu" #NAME SUFFIX};
  STEPGATE_CUDA_REQUIRED(STEPGATE_CUDA_MEMBER)
  STEPGATE_CUDA_OPTIONAL(STEPGATE_CUDA_MEMBER)
#undef STEPGATE_CUDA_MEMBER
};

class CallWatcher {
 public:
  virtual ~CallWatcher() = default;
  virtual void called(const char* function, Result result) noexcept = 0;
};

// The CUDA release that a driver must offer for the kernels of this build: 1000 * major + 10 * minor. A
// driver runs kernels of its own major release, whatever the minor, and older ones; so the minor is 0.
int built_version() noexcept;

struct DriverOptions {
  std::string library = "libcuda.so.1";  // by name: the dynamic loader's search; or a path
  int needed_version = built_version();
};

class Driver {
 public:
  // Opens, resolves, checks the version, initialises. nullptr with *error.
  static std::shared_ptr<Driver> open(const DriverOptions& options, std::string* error);

  const DriverApi& api() const noexcept { return api_; }
  int version() const noexcept { return version_; }  // 13000 is CUDA 13.0
  int device_count() const noexcept { return device_count_; }
  void watch(CallWatcher* watcher) noexcept { watcher_ = watcher; }

  template <class... P, class... A>
  Result call(const Function<Result(P...)>& function, A... arguments) const noexcept {
    if (function.address == nullptr) return Result::kNotSupported;
    const Result result = function.address(arguments...);
    if (watcher_ != nullptr) watcher_->called(function.name, result);
    return result;
  }

  // "CUDA_ERROR_OUT_OF_MEMORY"; never nullptr.
  const char* error_name(Result result) const noexcept;

 private:
  Driver() = default;
  bool resolve(void* library, std::string_view path, std::string* error);
  bool start(const DriverOptions& options, std::string* error);

  DriverApi api_;
  int version_ = 0;
  int device_count_ = 0;
  CallWatcher* watcher_ = nullptr;
};

// "13.0" of 13000.
std::string version_text(int version);
// The oldest Linux driver of a CUDA release's major number ("580"), or "" where it is not known.
const char* oldest_driver(int version) noexcept;

}  // namespace stepgate::device::cuda

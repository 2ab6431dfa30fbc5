// A device's primary context: the one that CUDA's runtime, and with it the job and NCCL, uses.
//
//   ContextScope scope(context, "scan");     // current for this block, the caller's afterwards
//   if (!scope) return scope.code();
//
// Threads: any; a scope belongs to its thread. Lock: none. Ownership: a PrimaryContext keeps the
// device's context alive; scopes are shorter.
#pragma once

#include <memory>
#include <string>

#include "collectives/device/cuda/driver.h"
#include "collectives/device/device.h"

namespace stepgate::device::cuda {

class PrimaryContext {
 public:
  // nullptr with *error.
  static std::unique_ptr<PrimaryContext> retain(std::shared_ptr<Driver> driver, int ordinal,
                                                std::string* error);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  const Driver& driver() const noexcept { return *driver_; }
  ContextHandle handle() const noexcept { return handle_; }
  int ordinal() const noexcept { return ordinal_; }
  std::uint32_t multiprocessors() const noexcept { return multiprocessors_; }
  std::uint32_t architecture() const noexcept { return architecture_; }  // 90 is compute capability 9.0

 private:
  PrimaryContext(std::shared_ptr<Driver> driver, int ordinal)
      : driver_(std::move(driver)), ordinal_(ordinal) {}
  bool read_attributes(std::string* error);

  std::shared_ptr<Driver> driver_;
  int ordinal_;
  DeviceId device_ = 0;
  ContextHandle handle_ = nullptr;
  std::uint32_t multiprocessors_ = 1;
  std::uint32_t architecture_ = 0;
};

// Costs one driver call where the context is current already, as it mostly is.
class ContextScope {
 public:
  ContextScope(const PrimaryContext& context, const char* operation) noexcept;
  // A context that cannot be popped is told by last_error alone: the operation itself was enqueued.
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  explicit operator bool() const noexcept { return code_ == Code::kOk; }
  Code code() const noexcept { return code_; }

 private:
  const PrimaryContext& context_;
  const char* operation_;
  bool pushed_ = false;
  Code code_ = Code::kOk;
};

// While it lives this thread may allocate although another one captures a stream in global mode.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) noexcept;
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  CaptureMode mode_ = CaptureMode::kRelaxed;
  bool exchanged_ = false;
};

}  // namespace stepgate::device::cuda

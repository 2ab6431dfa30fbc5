#include "collectives/device/cuda/context.h"

#include <utility>

#include "collectives/device/cuda/error_text.h"

namespace stepgate::device::cuda {

std::unique_ptr<PrimaryContext> PrimaryContext::retain(std::shared_ptr<Driver> driver, int ordinal,
                                                       std::string* error) {
  if (ordinal < 0 || ordinal >= driver->device_count()) {
    *error = "CUDA device " + std::to_string(ordinal) + "; allowed: 0 to " +
             std::to_string(driver->device_count() - 1) +
             (driver->device_count() == 0 ? " (the driver sees no device)" : "");
    return nullptr;
  }
  std::unique_ptr<PrimaryContext> c(new PrimaryContext(std::move(driver), ordinal));
  const DriverApi& api = c->driver_->api();
  const char* function = api.DeviceGet.name;
  Result r = c->driver_->call(api.DeviceGet, &c->device_, ordinal);
  if (r == Result::kSuccess) {
    function = api.DevicePrimaryCtxRetain.name;
    r = c->driver_->call(api.DevicePrimaryCtxRetain, &c->handle_, c->device_);
  }
  if (r != Result::kSuccess) {
    c->handle_ = nullptr;
    driver_failed(*c->driver_, "create", function, "", r);
    *error = last_text();
    return nullptr;
  }
  return c->read_attributes(error) ? std::move(c) : nullptr;
}

PrimaryContext::~PrimaryContext() {
  if (handle_ != nullptr) driver_->call(driver_->api().DevicePrimaryCtxRelease, device_);
}

bool PrimaryContext::read_attributes(std::string* error) {
  int processors = 0, major = 0, minor = 0, unified = 0;
  const std::pair<DeviceAttribute, int*> wanted[] = {
      {DeviceAttribute::kMultiprocessorCount, &processors},
      {DeviceAttribute::kComputeCapabilityMajor, &major},
      {DeviceAttribute::kComputeCapabilityMinor, &minor},
      {DeviceAttribute::kUnifiedAddressing, &unified},
  };
  for (const auto& [attribute, value] : wanted) {
    const Result r = driver_->call(driver_->api().DeviceGetAttribute, value, attribute, device_);
    if (r == Result::kSuccess) continue;
    driver_failed(*driver_, "create", driver_->api().DeviceGetAttribute.name, "", r);
    *error = last_text();
    return false;
  }
  if (unified == 0) {
    *error = "CUDA device " + std::to_string(ordinal_) +
             " has no unified addressing; mapped records need it (64-bit Linux has it on every device)";
    return false;
  }
  multiprocessors_ = static_cast<std::uint32_t>(processors > 0 ? processors : 1);
  architecture_ = static_cast<std::uint32_t>(major * 10 + minor);
  return true;
}

ContextScope::ContextScope(const PrimaryContext& context, const char* operation) noexcept
    : context_(context), operation_(operation) {
  const Driver& driver = context.driver();
  const DriverApi& api = driver.api();
  ContextHandle current = nullptr;
  const bool known = driver.call(api.CtxGetCurrent, &current) == Result::kSuccess;
  if (known && current == context.handle()) return;
  // Any call may report once what earlier work of the context failed with; that is no reason to leave
  // memory behind.
  Result r = driver.call(api.CtxPushCurrent, context.handle());
  if (r != Result::kSuccess) r = driver.call(api.CtxPushCurrent, context.handle());
  pushed_ = r == Result::kSuccess;
  if (!pushed_) code_ = driver_failed(driver, operation, api.CtxPushCurrent.name, "", r);
}

ContextScope::~ContextScope() {
  if (!pushed_) return;
  const Driver& driver = context_.driver();
  ContextHandle popped = nullptr;
  const Result r = driver.call(driver.api().CtxPopCurrent, &popped);
  if (r != Result::kSuccess) driver_failed(driver, operation_, driver.api().CtxPopCurrent.name, "", r);
}

RelaxedCapture::RelaxedCapture(const Driver& driver) noexcept : driver_(driver) {
  exchanged_ = driver.call(driver.api().ThreadExchangeStreamCaptureMode, &mode_) == Result::kSuccess;
}

RelaxedCapture::~RelaxedCapture() {
  if (!exchanged_) return;
  const auto& exchange = driver_.api().ThreadExchangeStreamCaptureMode;
  if (driver_.call(exchange, &mode_) != Result::kSuccess) driver_.call(exchange, &mode_);
}

}  // namespace stepgate::device::cuda

// CudaDevice: order between streams, captures, and what a pointer is.
#include "collectives/device/cuda/cuda_device.h"

namespace stepgate::device {

using cuda::ContextScope;
using cuda::RelaxedCapture;
using cuda::Result;

namespace {

cuda::EventHandle event_of(Mark mark) {
  return static_cast<cuda::EventHandle>(mark);
}

cuda::StreamHandle handle_of(Stream s) {
  return static_cast<cuda::StreamHandle>(s);
}

cuda::DevicePtr address(const void* p) {
  return static_cast<cuda::DevicePtr>(reinterpret_cast<std::uintptr_t>(p));
}

}  // namespace

Code CudaDevice::create_stream(Stream* s) noexcept {
  const ContextScope scope(*context_, "create_stream");
  if (!scope) return scope.code();
  const RelaxedCapture relaxed(context_->driver());
  cuda::StreamHandle made = nullptr;
  const Code code =
      call_driver("create_stream", context_->driver().api().StreamCreate, &made, cuda::kStreamNonBlocking);
  *s = made;
  return code;
}

void CudaDevice::release_stream(Stream s) noexcept {
  if (s == nullptr) return;
  const ContextScope scope(*context_, "release_stream");
  const RelaxedCapture relaxed(context_->driver());
  call_driver("release_stream", context_->driver().api().StreamDestroy, handle_of(s));
}

Mark CudaDevice::create_mark() noexcept {
  const ContextScope scope(*context_, "create_mark");
  if (!scope) return nullptr;
  const RelaxedCapture relaxed(context_->driver());
  cuda::EventHandle event = nullptr;
  const Code code =
      call_driver("create_mark", context_->driver().api().EventCreate, &event, cuda::kEventDisableTiming);
  return code == Code::kOk ? event : nullptr;
}

void CudaDevice::release_mark(Mark mark) noexcept {
  if (mark == nullptr) return;
  const ContextScope scope(*context_, "release_mark");
  const RelaxedCapture relaxed(context_->driver());
  call_driver("release_mark", context_->driver().api().EventDestroy, event_of(mark));
}

Code CudaDevice::record(Stream s, Mark mark) noexcept {
  const ContextScope scope(*context_, "record");
  if (!scope) return scope.code();
  return call_driver("record", context_->driver().api().EventRecord, event_of(mark), handle_of(s));
}

Code CudaDevice::wait(Stream s, Mark mark) noexcept {
  const ContextScope scope(*context_, "wait");
  if (!scope) return scope.code();
  return call_driver("wait", context_->driver().api().StreamWaitEvent, handle_of(s), event_of(mark), 0u);
}

CaptureState CudaDevice::capture_state(Stream s) noexcept {
  const ContextScope scope(*context_, "capture_state");
  if (!scope) return CaptureState::kFailed;
  cuda::CaptureStatus status = cuda::CaptureStatus::kNone;
  const cuda::Driver& driver = context_->driver();
  const Result r = driver.call(driver.api().StreamIsCapturing, handle_of(s), &status);
  if (r == Result::kStreamCaptureImplicit) return CaptureState::kUnknown;
  if (r != Result::kSuccess) {
    cuda::driver_failed(driver, "capture_state", driver.api().StreamIsCapturing.name, "", r);
    return CaptureState::kFailed;
  }
  return status == cuda::CaptureStatus::kNone ? CaptureState::kNone : CaptureState::kCapturing;
}

bool CudaDevice::reaches(const void* p) noexcept {
  const ContextScope scope(*context_, "reaches");
  if (!scope) return false;
  const auto ask = [&](cuda::PointerAttribute attribute, auto* value) {
    return call_driver("reaches", context_->driver().api().PointerGetAttribute, static_cast<void*>(value),
                       attribute, address(p)) == Code::kOk;
  };
  unsigned managed = 0;
  auto type = cuda::MemoryType::kHost;
  int ordinal = -1;
  cuda::DevicePtr alias = 0;
  if (!ask(cuda::PointerAttribute::kMemoryType, &type)) return false;  // nothing that the driver knows
  if (type == cuda::MemoryType::kDevice && ask(cuda::PointerAttribute::kDeviceOrdinal, &ordinal) &&
      ordinal == context_->ordinal()) {
    return true;
  }
  if (ask(cuda::PointerAttribute::kIsManaged, &managed) && managed != 0) return true;
  // Kernels are handed p itself.
  return type == cuda::MemoryType::kHost && ask(cuda::PointerAttribute::kDevicePointer, &alias) &&
         alias == address(p);
}

}  // namespace stepgate::device

// Streams, events, host functions.
#include "tests/standin_cuda/driver/api.h"
#include "tests/standin_cuda/driver/world.h"

namespace stepgate::standin::api {

Result StreamCreate(StreamHandle* stream, unsigned flags) {
  return entry("cuStreamCreate", [&] {
    if ((flags & ~kStreamNonBlocking) != 0) return Result::kInvalidValue;
    return world().create_stream((flags & kStreamNonBlocking) == 0, stream);
  });
}

Result StreamDestroy(StreamHandle stream) {
  return entry(
      "cuStreamDestroy_v2", [&] { return world().destroy_stream(stream); }, true);
}

Result StreamSynchronize(StreamHandle stream) {
  return entry("cuStreamSynchronize", [&] { return world().wait_for(world().stream(stream)); });
}

Result StreamQuery(StreamHandle handle) {
  return entry("cuStreamQuery", [&] {
    CUstream_st* stream = world().stream(handle);
    if (stream == nullptr) return Result::kInvalidHandle;
    return stream->queue->done(stream->queue->last()) ? Result::kSuccess : Result::kNotReady;
  });
}

// This stand-in captures nothing.
Result StreamIsCapturing(StreamHandle stream, CaptureStatus* status) {
  return entry("cuStreamIsCapturing", [&] {
    *status = CaptureStatus::kNone;
    return world().stream(stream) != nullptr ? Result::kSuccess : Result::kInvalidHandle;
  });
}

Result ThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  return entry("cuThreadExchangeStreamCaptureMode", [&] {
    thread_local CaptureMode current = CaptureMode::kGlobal;
    std::swap(current, *mode);
    return Result::kSuccess;
  });
}

Result EventCreate(EventHandle* event, unsigned) {
  return entry("cuEventCreate", [&] {
    if (World::current() == nullptr) return Result::kInvalidContext;
    *event = world().create_event();
    return Result::kSuccess;
  });
}

Result EventDestroy(EventHandle event) {
  return entry(
      "cuEventDestroy_v2", [&] { return world().destroy_event(event); }, true);
}

Result EventRecord(EventHandle event, StreamHandle handle) {
  return entry("cuEventRecord", [&] {
    CUstream_st* stream = world().stream(handle);
    if (stream == nullptr || !world().is_event(event)) return world().misuse(Result::kInvalidHandle);
    const Result pushed = world().push(stream, {});
    const std::lock_guard lock(event->mutex);
    event->point = {stream->queue, stream->queue->last()};
    return pushed;
  });
}

Result EventQuery(EventHandle event) {
  return entry("cuEventQuery", [&] {
    if (!world().is_event(event)) return world().misuse(Result::kInvalidHandle);
    const std::lock_guard lock(event->mutex);
    return event->point.done() ? Result::kSuccess : Result::kNotReady;
  });
}

Result EventSynchronize(EventHandle event) {
  return entry("cuEventSynchronize", [&] {
    if (!world().is_event(event)) return world().misuse(Result::kInvalidHandle);
    note_wait();
    Point point;
    {
      const std::lock_guard lock(event->mutex);
      point = event->point;
    }
    point.wait();
    return Result::kSuccess;
  });
}

// Waits for the record that came last before this call; an event that was never recorded is no wait.
Result StreamWaitEvent(StreamHandle handle, EventHandle event, unsigned) {
  return entry("cuStreamWaitEvent", [&] {
    CUstream_st* stream = world().stream(handle);
    if (stream == nullptr || !world().is_event(event)) return world().misuse(Result::kInvalidHandle);
    Point point;
    {
      const std::lock_guard lock(event->mutex);
      point = event->point;
    }
    if (point.queue == nullptr || point.queue == stream->queue) return Result::kSuccess;
    return world().push(stream, {}, {point});
  });
}

// Device memory stays closed while it runs.
Result LaunchHostFunc(StreamHandle stream, HostFunction function, void* data) {
  return entry("cuLaunchHostFunc",
               [&] { return world().push(world().stream(stream), [=] { function(data); }); });
}

}  // namespace stepgate::standin::api

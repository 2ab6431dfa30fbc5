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
    CaptureStatus status{};
    if (!world().capturing(stream, &status)) return Result::kInvalidHandle;
    if (status != CaptureStatus::kNone) return world().wait_for(stream);  // refused, as a wait is
    return stream->queue->done(stream->queue->last()) ? Result::kSuccess : Result::kNotReady;
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

Result EventRecord(EventHandle event, StreamHandle stream) {
  return entry("cuEventRecord", [&] { return world().record(event, world().stream(stream)); });
}

Result EventQuery(EventHandle event) {
  return entry("cuEventQuery", [&] { return world().ask(event, false); });
}

Result EventSynchronize(EventHandle event) {
  return entry("cuEventSynchronize", [&] { return world().ask(event, true); });
}

Result StreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  return entry("cuStreamWaitEvent", [&] { return world().wait_event(world().stream(stream), event); });
}

// Device memory stays closed while it runs.
Result LaunchHostFunc(StreamHandle stream, HostFunction function, void* data) {
  return entry("cuLaunchHostFunc",
               [&] { return world().push(world().stream(stream), [=] { function(data); }); });
}

}  // namespace stepgate::standin::api

// Stream capture and graphs.
#include "tests/standin_cuda/driver/api.h"
#include "tests/standin_cuda/driver/world.h"

namespace stepgate::standin::api {

Result ThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  return entry("cuThreadExchangeStreamCaptureMode", [&] {
    std::swap(World::thread_mode(), *mode);
    return Result::kSuccess;
  });
}

Result StreamIsCapturing(StreamHandle stream, CaptureStatus* status) {
  return entry("cuStreamIsCapturing", [&] {
    CUstream_st* found = world().stream(stream);
    if (!world().capturing(found, status)) return Result::kInvalidHandle;
    return world().implicated(found) ? Result::kStreamCaptureImplicit : Result::kSuccess;
  });
}

Result StreamBeginCapture(StreamHandle stream, CaptureMode mode) {
  return entry("cuStreamBeginCapture_v2",
               [&] { return world().begin_capture(world().stream(stream), mode); });
}

Result StreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  return entry("cuStreamEndCapture", [&] { return world().end_capture(world().stream(stream), graph); });
}

Result GraphInstantiateWithFlags(GraphExecHandle* exec, GraphHandle graph, unsigned long long flags) {
  return entry("cuGraphInstantiateWithFlags",
               [&] { return flags == 0 ? world().instantiate(graph, exec) : Result::kNotSupported; });
}

Result GraphLaunch(GraphExecHandle exec, StreamHandle stream) {
  return entry("cuGraphLaunch", [&] { return world().launch(exec, world().stream(stream)); });
}

Result GraphExecDestroy(GraphExecHandle exec) {
  return entry(
      "cuGraphExecDestroy", [&] { return world().destroy_exec(exec); }, true);
}

Result GraphDestroy(GraphHandle graph) {
  return entry(
      "cuGraphDestroy", [&] { return world().destroy_graph(graph); }, true);
}

}  // namespace stepgate::standin::api

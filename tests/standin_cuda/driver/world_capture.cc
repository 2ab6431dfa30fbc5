// World: captures and graphs.
#include <algorithm>

#include "tests/standin_cuda/driver/world.h"

namespace stepgate::standin {

using device::cuda::CaptureMode;
using device::cuda::CaptureStatus;

CaptureMode& World::thread_mode() {
  thread_local CaptureMode mode = CaptureMode::kGlobal;
  return mode;
}

Result World::invalidate_locked(Capture* capture, Result result) {
  capture->invalid = true;
  return result;
}

Result World::unsafe_now() {
  if (thread_mode() == CaptureMode::kRelaxed) return Result::kSuccess;
  Result result = Result::kSuccess;
  const std::lock_guard lock(mutex_);
  for (const auto& c : captures_) {
    if (c->mode != CaptureMode::kRelaxed)
      result = invalidate_locked(c.get(), Result::kStreamCaptureUnsupported);
  }
  return result;
}

bool World::capturing(CUstream_st* stream, CaptureStatus* status) const {
  const std::lock_guard lock(mutex_);
  *status = CaptureStatus::kNone;
  if (stream == nullptr) return false;
  if (stream->capture != nullptr) {
    *status = stream->capture->invalid ? CaptureStatus::kInvalidated : CaptureStatus::kActive;
  }
  return true;
}

// The NULL stream would have to wait for what a capture only keeps.
Capture* World::implied_locked(const CUstream_st* stream) const {
  if (stream != &stream->context->null_stream) return nullptr;
  for (const auto& c : captures_) {
    if (c->origin->blocking && c->origin->context == stream->context) return c.get();
  }
  return nullptr;
}

bool World::implicated(const CUstream_st* stream) const {
  const std::lock_guard lock(mutex_);
  return stream != nullptr && implied_locked(stream) != nullptr;
}

// The NULL stream cannot capture.
Result World::begin_capture(CUstream_st* stream, CaptureMode mode) {
  const std::lock_guard lock(mutex_);
  if (stream == nullptr || stream->capture != nullptr) return misuse_locked(Result::kInvalidValue);
  if (stream == &stream->context->null_stream) return Result::kStreamCaptureUnsupported;
  auto* graph = new CUgraph_st{stream->context, {}};
  captures_.push_back(std::make_unique<Capture>(Capture{graph, stream, mode, false}));
  stream->capture = captures_.back().get();
  stream->frontier.clear();
  return Result::kSuccess;
}

Result World::end_capture(CUstream_st* stream, CUgraph_st** graph) {
  const std::lock_guard lock(mutex_);
  *graph = nullptr;
  if (stream == nullptr || stream->capture == nullptr) return misuse_locked(Result::kInvalidValue);
  Capture* capture = stream->capture;
  if (capture->origin != stream) return invalidate_locked(capture, Result::kStreamCaptureUnmatched);
  Result result = capture->invalid ? Result::kStreamCaptureInvalidated : Result::kSuccess;
  if (result == Result::kSuccess && !all_joined(*capture->graph, stream->frontier)) {
    result = Result::kStreamCaptureUnjoined;
  }
  const auto leave = [capture](auto& taker) {
    if (taker.capture != capture) return;
    taker.capture = nullptr;
    taker.frontier.clear();
  };
  for (CUstream_st* s : streams_) leave(*s);
  for (CUevent_st* e : events_) leave(*e);
  if (result == Result::kSuccess) {
    graphs_.insert(capture->graph);
    *graph = capture->graph;
  } else {
    delete capture->graph;
  }
  captures_.erase(std::find_if(captures_.begin(), captures_.end(),
                               [capture](const auto& c) { return c.get() == capture; }));
  return result;
}

Result World::instantiate(CUgraph_st* graph, CUgraphExec_st** exec) {
  const std::lock_guard lock(mutex_);
  if (graphs_.count(graph) == 0) return misuse_locked(Result::kInvalidHandle);
  *exec = new CUgraphExec_st{*graph};
  execs_.insert(*exec);
  return Result::kSuccess;
}

// All nodes one after another, as one piece of the stream.
Result World::launch(CUgraphExec_st* exec, CUstream_st* stream) {
  const std::lock_guard lock(mutex_);
  if (stream == nullptr || execs_.count(exec) == 0) return misuse_locked(Result::kInvalidHandle);
  if (exec->graph.context != stream->context) return misuse_locked(Result::kInvalidHandle);
  if (stream->capture != nullptr)
    return invalidate_locked(stream->capture, Result::kStreamCaptureUnsupported);
  std::vector<std::function<void()>> works;
  for (const std::size_t i : random_order(exec->graph, random_)) {
    if (exec->graph.nodes[i].work) works.push_back(exec->graph.nodes[i].work);
  }
  return push_locked(stream,
                     [works = std::move(works)] {
                       for (const auto& work : works) work();
                     },
                     {});
}

Result World::destroy_graph(CUgraph_st* graph) {
  const std::lock_guard lock(mutex_);
  if (graphs_.erase(graph) == 0) return misuse_locked(Result::kInvalidHandle);
  delete graph;
  return Result::kSuccess;
}

Result World::destroy_exec(CUgraphExec_st* exec) {
  const std::lock_guard lock(mutex_);
  if (execs_.erase(exec) == 0) return misuse_locked(Result::kInvalidHandle);
  delete exec;
  return Result::kSuccess;
}

}  // namespace stepgate::standin

#include "tests/standin_cuda/driver/world.h"

#include <cstdio>

#include "tests/standin_cuda/driver/environment.h"

namespace stepgate::standin {

World& world() {
  static World* machine = new World;  // never destroyed: its threads may outlive main()
  return *machine;
}

World::World() {
  configure(options_from_environment());
}

void World::configure(const Options& options) {
  const std::lock_guard lock(mutex_);
  options_ = options;
  memory_.set_guard(options.guard);
  misuses_ = 0;
  kernels_run = 0;
  random_.seed(options.seed);
  for (int i = 0; i < kMaxDevices; ++i) {
    contexts_[static_cast<std::size_t>(i)].device = i;
    contexts_[static_cast<std::size_t>(i)].null_stream = {};
  }
  if (options.max_delay_us == 0) return;
  std::fprintf(stderr, "stand-in CUDA: delays up to %u us, seed %llu\n", options.max_delay_us,
               static_cast<unsigned long long>(options.seed));
}

Options World::options() const {
  const std::lock_guard lock(mutex_);
  return options_;
}

Account World::account() const {
  Account a;
  memory_.count(&a);
  const std::lock_guard lock(mutex_);
  for (const CUctx_st& c : contexts_) a.contexts += c.retains;
  a.modules = static_cast<std::int64_t>(modules_.size());
  a.streams = static_cast<std::int64_t>(streams_.size());
  a.events = static_cast<std::int64_t>(events_.size());
  a.graphs = static_cast<std::int64_t>(graphs_.size() + execs_.size());
  a.misuses = misuses_;
  return a;
}

Result World::misuse_locked(Result result) {
  ++misuses_;
  return result;
}

Result World::misuse(Result result) {
  const std::lock_guard lock(mutex_);
  return misuse_locked(result);
}

CUctx_st* World::context(int device) {
  const std::lock_guard lock(mutex_);
  const bool there = device >= 0 && device < options_.devices && device < kMaxDevices;
  return there ? &contexts_[static_cast<std::size_t>(device)] : nullptr;
}

Result World::retain(int device, CUctx_st** out) {
  CUctx_st* found = context(device);
  if (found == nullptr) return Result::kInvalidDevice;
  const std::lock_guard lock(mutex_);
  ++found->retains;
  *out = found;
  return Result::kSuccess;
}

Result World::release(int device) {
  CUctx_st* found = context(device);
  if (found == nullptr) return misuse(Result::kInvalidDevice);
  const std::lock_guard lock(mutex_);
  if (found->retains > 0) {
    --found->retains;
    return Result::kSuccess;
  }
  ++misuses_;
  return Result::kInvalidContext;
}

std::vector<CUctx_st*>& World::stack() {
  thread_local std::vector<CUctx_st*> contexts;
  return contexts;
}

CUctx_st* World::current() {
  return stack().empty() ? nullptr : stack().back();
}

std::shared_ptr<Queue> World::new_queue_locked() {
  return std::make_shared<Queue>(options_.seed + ++queues_, options_.max_delay_us);
}

Result World::create_stream(bool blocking, CUstream_st** out) {
  if (current() == nullptr) return Result::kInvalidContext;
  const std::lock_guard lock(mutex_);
  auto* stream = new CUstream_st{current(), blocking, new_queue_locked(), nullptr, {}};
  streams_.insert(stream);
  *out = stream;
  return Result::kSuccess;
}

Result World::destroy_stream(CUstream_st* stream) {
  std::unique_lock lock(mutex_);
  if (streams_.erase(stream) == 0) {
    ++misuses_;
    return Result::kInvalidHandle;
  }
  lock.unlock();
  stream->queue->wait(stream->queue->last());
  delete stream;
  return Result::kSuccess;
}

CUstream_st* World::stream(CUstream_st* handle) {
  CUctx_st* context = current();
  const std::lock_guard lock(mutex_);
  if (context == nullptr) return nullptr;
  if (names_null_stream(handle)) {
    CUstream_st& s = context->null_stream;
    if (s.queue == nullptr) s = {context, true, new_queue_locked(), nullptr, {}};
    return &s;
  }
  if (streams_.count(handle) != 0 && handle->context == context) return handle;
  ++misuses_;
  return nullptr;
}

// The NULL stream waits for all blocking streams of its context, and they for it.
std::vector<Point> World::others_locked(const CUstream_st& stream) const {
  std::vector<Point> points;
  if (!stream.blocking) return points;
  const auto add = [&](const CUstream_st& s) {
    if (s.queue != nullptr && s.queue->last() != 0) points.push_back({s.queue, s.queue->last()});
  };
  if (&stream != &stream.context->null_stream) {
    add(stream.context->null_stream);
    return points;
  }
  for (const CUstream_st* s : streams_) {
    if (s->blocking && s->context == stream.context) add(*s);
  }
  return points;
}

Result World::push(CUstream_st* stream, std::function<void()> work, std::vector<Point> after) {
  if (stream == nullptr) return Result::kInvalidHandle;
  const std::lock_guard lock(mutex_);
  return push_locked(stream, std::move(work), std::move(after));
}

Result World::push_locked(CUstream_st* stream, std::function<void()> work, std::vector<Point> after) {
  if (stream->capture != nullptr) {
    if (stream->capture->invalid) return Result::kStreamCaptureInvalidated;
    add_node(*stream->capture->graph, stream->frontier, std::move(work));
    return Result::kSuccess;
  }
  if (Capture* implied = implied_locked(stream); implied != nullptr) {
    return invalidate_locked(implied, Result::kStreamCaptureImplicit);
  }
  for (Point& p : others_locked(*stream)) after.push_back(std::move(p));
  stream->queue->push(std::move(work), std::move(after));
  return Result::kSuccess;
}

Result World::wait_for(CUstream_st* stream) {
  if (stream == nullptr) return Result::kInvalidHandle;
  note_wait();
  std::vector<Point> points;
  {
    const std::lock_guard lock(mutex_);
    if (stream->capture != nullptr) {
      return invalidate_locked(stream->capture, Result::kStreamCaptureUnsupported);
    }
    points = others_locked(*stream);
    points.push_back({stream->queue, stream->queue->last()});
  }
  for (const Point& p : points) p.wait();
  return Result::kSuccess;
}

void World::drain(int device) {
  std::vector<Point> points;
  {
    const std::lock_guard lock(mutex_);
    const CUstream_st& null = contexts_[static_cast<std::size_t>(device)].null_stream;
    if (null.queue != nullptr) points.push_back({null.queue, null.queue->last()});
    for (const CUstream_st* s : streams_) {
      if (s->context->device == device) points.push_back({s->queue, s->queue->last()});
    }
  }
  for (const Point& p : points) p.wait();
}

CUevent_st* World::create_event() {
  auto* event = new CUevent_st;
  const std::lock_guard lock(mutex_);
  events_.insert(event);
  return event;
}

Result World::record(CUevent_st* event, CUstream_st* stream) {
  const std::lock_guard lock(mutex_);
  if (stream == nullptr || events_.count(event) == 0) return misuse_locked(Result::kInvalidHandle);
  event->capture = stream->capture;
  event->frontier = stream->frontier;
  if (stream->capture != nullptr) return Result::kSuccess;
  const Result pushed = push_locked(stream, {}, {});
  event->point = {stream->queue, stream->queue->last()};
  return pushed;
}

Result World::ask(CUevent_st* event, bool wait) {
  Point point;
  {
    const std::lock_guard lock(mutex_);
    if (events_.count(event) == 0) return misuse_locked(Result::kInvalidHandle);
    if (event->capture != nullptr) {
      return invalidate_locked(event->capture, Result::kStreamCaptureUnsupported);
    }
    point = event->point;
  }
  if (!wait) return point.done() ? Result::kSuccess : Result::kNotReady;
  note_wait();
  point.wait();
  return Result::kSuccess;
}

// Waits for the record that came last before this call; an event that was never recorded is no wait.
Result World::wait_event(CUstream_st* stream, CUevent_st* event) {
  const std::lock_guard lock(mutex_);
  if (stream == nullptr || events_.count(event) == 0) return misuse_locked(Result::kInvalidHandle);
  if (event->capture != nullptr) {
    if (stream->capture != nullptr && stream->capture != event->capture) {
      return invalidate_locked(event->capture, Result::kStreamCaptureMerge);
    }
    stream->capture = event->capture;
    join(stream->frontier, event->frontier);
    return Result::kSuccess;
  }
  if (event->point.queue == nullptr || event->point.queue == stream->queue) return Result::kSuccess;
  if (stream->capture != nullptr) return invalidate_locked(stream->capture, Result::kStreamCaptureIsolation);
  return push_locked(stream, {}, {event->point});
}

Result World::destroy_event(CUevent_st* event) {
  const std::lock_guard lock(mutex_);
  if (events_.erase(event) == 0) {
    ++misuses_;
    return Result::kInvalidHandle;
  }
  delete event;
  return Result::kSuccess;
}

CUmod_st* World::create_module() {
  auto* module = new CUmod_st{current(), {}};
  const std::lock_guard lock(mutex_);
  modules_.insert(module);
  return module;
}

bool World::is_module(CUmod_st* module) const {
  const std::lock_guard lock(mutex_);
  return modules_.count(module) != 0;
}

Result World::destroy_module(CUmod_st* module) {
  const std::lock_guard lock(mutex_);
  if (modules_.erase(module) == 0) {
    ++misuses_;
    return Result::kInvalidHandle;
  }
  delete module;
  return Result::kSuccess;
}

}  // namespace stepgate::standin

// World: the machine that the stand-in plays: devices with a primary context each, their streams,
// events and modules.
//
// Threads: any. Lock: mutex_ guards the tables and is never held while waiting for a stream.
// Ownership: the process's one World is never destroyed, as a driver is not.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <vector>

#include "collectives/device/cuda/driver_abi.h"
#include "tests/standin_cuda/driver/calls.h"
#include "tests/standin_cuda/driver/capture.h"
#include "tests/standin_cuda/driver/control.h"
#include "tests/standin_cuda/driver/memory.h"
#include "tests/standin_cuda/driver/queue.h"

struct CUstream_st {
  CUctx_st* context = nullptr;
  bool blocking = true;  // ordered with the NULL stream
  std::shared_ptr<stepgate::standin::Queue> queue;
  stepgate::standin::Capture* capture = nullptr;  // that it takes part in
  stepgate::standin::Frontier frontier;           // of the capture
};

struct CUevent_st {
  stepgate::standin::Point point;
  stepgate::standin::Capture* capture = nullptr;  // that it was recorded in
  stepgate::standin::Frontier frontier;
};

struct CUctx_st {
  int device = 0;
  int retains = 0;
  CUstream_st null_stream;
};

struct CUfunc_st {
  CUctx_st* context = nullptr;
  const void* kernel = nullptr;  // the table's entry
};

struct CUmod_st {
  CUctx_st* context = nullptr;
  std::vector<std::unique_ptr<CUfunc_st>> functions;
};

namespace stepgate::standin {

inline constexpr int kMaxDevices = 8;

class World {
 public:
  World();
  void configure(const Options& options);
  Options options() const;
  Account account() const;
  Memory& memory() { return memory_; }

  CUctx_st* context(int device);  // nullptr for a device that is not there
  Result retain(int device, CUctx_st** out);
  Result release(int device);

  // The calling thread's stack of contexts.
  static std::vector<CUctx_st*>& stack();
  static CUctx_st* current();

  Result create_stream(bool blocking, CUstream_st** out);
  Result destroy_stream(CUstream_st* stream);
  // The stream behind a handle as the current context sees it; nullptr where it has none such.
  CUstream_st* stream(CUstream_st* handle);
  // In the stream's order, and in that of the NULL stream.
  Result push(CUstream_st* stream, std::function<void()> work, std::vector<Point> after = {});
  Result wait_for(CUstream_st* stream);
  // Everything that was pushed on the device so far.
  void drain(int device);

  CUevent_st* create_event();
  Result record(CUevent_st* event, CUstream_st* stream);
  // `wait`: until it has happened; else whether it has.
  Result ask(CUevent_st* event, bool wait);
  Result wait_event(CUstream_st* stream, CUevent_st* event);
  Result destroy_event(CUevent_st* event);
  CUmod_st* create_module();
  Result destroy_module(CUmod_st* module);
  bool is_module(CUmod_st* module) const;

  // The calling thread's mode for calls that a capture elsewhere forbids.
  static device::cuda::CaptureMode& thread_mode();
  // What may not happen while something captures (allocations): refused, and the captures are lost.
  Result unsafe_now();
  bool capturing(CUstream_st* stream, device::cuda::CaptureStatus* status) const;
  // The NULL stream, while a stream that it would have to wait for captures.
  bool implicated(const CUstream_st* stream) const;
  Result begin_capture(CUstream_st* stream, device::cuda::CaptureMode mode);
  Result end_capture(CUstream_st* stream, CUgraph_st** graph);
  Result instantiate(CUgraph_st* graph, CUgraphExec_st** exec);
  Result launch(CUgraphExec_st* exec, CUstream_st* stream);
  Result destroy_graph(CUgraph_st* graph);
  Result destroy_exec(CUgraphExec_st* exec);

  Result misuse(Result result);
  std::atomic<std::uint64_t> kernels_run{0};

 private:
  Result misuse_locked(Result result);
  Result invalidate_locked(Capture* capture, Result result);
  Result push_locked(CUstream_st* stream, std::function<void()> work, std::vector<Point> after);
  Capture* implied_locked(const CUstream_st* stream) const;
  std::vector<Point> others_locked(const CUstream_st& stream) const;
  std::shared_ptr<Queue> new_queue_locked();

  mutable std::mutex mutex_;
  Options options_;
  Memory memory_;
  std::array<CUctx_st, kMaxDevices> contexts_;
  std::set<CUstream_st*> streams_;
  std::set<CUevent_st*> events_;
  std::set<CUmod_st*> modules_;
  std::set<CUgraph_st*> graphs_;
  std::set<CUgraphExec_st*> execs_;
  std::vector<std::unique_ptr<Capture>> captures_;  // running ones
  std::mt19937_64 random_;
  std::uint64_t queues_ = 0;
  std::int64_t misuses_ = 0;
};

World& world();

// A handle as CUDA has it: 1 (legacy) and 2 (per thread) are names of streams too; this stand-in
// takes the first for the NULL stream and knows no per-thread stream.
inline bool names_null_stream(CUstream_st* handle) {
  return reinterpret_cast<std::uintptr_t>(handle) <= 1;
}

}  // namespace stepgate::standin

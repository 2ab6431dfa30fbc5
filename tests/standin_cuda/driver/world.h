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
#include <set>
#include <vector>

#include "collectives/device/cuda/driver_abi.h"
#include "tests/standin_cuda/driver/calls.h"
#include "tests/standin_cuda/driver/control.h"
#include "tests/standin_cuda/driver/memory.h"
#include "tests/standin_cuda/driver/queue.h"

struct CUstream_st {
  CUctx_st* context = nullptr;
  bool blocking = true;  // ordered with the NULL stream
  std::shared_ptr<stepgate::standin::Queue> queue;
};

struct CUevent_st {
  std::mutex mutex;
  stepgate::standin::Point point;
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
  bool is_event(CUevent_st* event) const;
  Result destroy_event(CUevent_st* event);
  CUmod_st* create_module();
  Result destroy_module(CUmod_st* module);
  bool is_module(CUmod_st* module) const;

  Result misuse(Result result);
  std::atomic<std::uint64_t> kernels_run{0};

 private:
  std::vector<Point> others_locked(const CUstream_st& stream) const;
  std::shared_ptr<Queue> new_queue_locked();

  mutable std::mutex mutex_;
  Options options_;
  Memory memory_;
  std::array<CUctx_st, kMaxDevices> contexts_;
  std::set<CUstream_st*> streams_;
  std::set<CUevent_st*> events_;
  std::set<CUmod_st*> modules_;
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

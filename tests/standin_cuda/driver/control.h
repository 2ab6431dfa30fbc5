// What a test may ask of the stand-in driver beside CUDA's own functions: to fail a call, to show what
// was called and what is still allocated. Found by name in the opened library:
//
//   auto* control = reinterpret_cast<ControlFunction>(dlsym(library, kControlSymbol))();
//
// Threads: configure() while no stream is live; the rest from any thread. Lock: inside.
// Ownership: the table is the library's and lives as long as it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stepgate::standin {

struct Options {
  int devices = 1;
  int driver_version = 13000;
  bool unified_addressing = true;
  bool knows_image = true;  // false: cuModuleLoadData has no binary for this device
  // Device memory has no access rights outside of kernels and copies (whole process: the host is
  // caught only while nothing runs). False: plain heap memory, which AddressSanitizer watches.
  bool guard = false;
  unsigned max_delay_us = 0;  // before an operation of a stream, at random; 0: never
  std::uint64_t seed = 1;
};

struct Account {
  std::int64_t device_blocks = 0, device_bytes = 0;
  std::int64_t pinned_blocks = 0, pinned_bytes = 0;
  std::int64_t contexts = 0;  // retains that were not released
  std::int64_t modules = 0, streams = 0, events = 0, graphs = 0;
  std::int64_t misuses = 0;  // freed twice, unknown handles, a stream of another context

  bool empty() const {
    return device_blocks == 0 && pinned_blocks == 0 && contexts == 0 && modules == 0 && streams == 0 &&
           events == 0 && graphs == 0;
  }
};

struct CallRecord {
  char name[40];
  int result;
  int waited;  // the host waited for the device in it
};

struct Control {
  // Forgets calls and faults, keeps what is allocated.
  void (*configure)(const Options& options);
  // The index-th call (from 0, counted from here) of `name` fails with `result`; nullptr: of any name,
  // kAnyWork: of any but a context's. Calls that release something do release it, and return the failure all
  // the same, as CUDA does for errors of earlier work. count: how many calls in a row, from that one on.
  void (*fail)(const char* name, std::uint64_t index, int result, std::uint64_t count);
  void (*heal)();
  std::uint64_t (*faults_hit)();
  // Calls since configure() or forget_calls(), oldest first; returns how many there are.
  std::size_t (*calls)(CallRecord* out, std::size_t capacity);
  void (*forget_calls)();
  Account (*account)();
  std::uint64_t (*kernels_run)();
};

// Every function but cuCtx*: a device that is lost still answers those.
inline constexpr char kAnyWork[] = "*work";

using ControlFunction = const Control* (*)();
inline constexpr char kControlSymbol[] = "standin_cuda_control";

}  // namespace stepgate::standin

// How long work on a stream takes: between two events of the device, everything that ran before it flushed
// out of the L2 cache. Where the driver has no clock for events (the stand-in), the host's.
//
// Thread: the program's one. Order: nothing else on the session's stream meanwhile. Lock: none.
// Ownership: the timer is shorter than the session.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/gpu/session.h"

namespace stepgate::gpu {

struct Variant {
  std::string name;
  std::function<bool()> enqueue;
};

class Timer {
 public:
  // flush_bytes: several times the L2 cache.
  Timer(Session& session, std::size_t flush_bytes, int repetitions);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Median microseconds of each, all of them by turns.
  std::vector<double> medians(const std::vector<Variant>& variants);
  // Between the end of `before` and the end of `measured`, when both are enqueued at once.
  double median_behind(const std::function<bool()>& before, const std::function<bool()>& measured);

 private:
  double once(const std::function<bool()>& before, const std::function<bool()>& measured);
  void flush();

  Session& session_;
  Buffer flushed_;
  int repetitions_;
  device::cuda::EventHandle start_ = nullptr, stop_ = nullptr;
  device::cuda::Result (*elapsed_)(float*, device::cuda::EventHandle, device::cuda::EventHandle) = nullptr;
};

double median(std::vector<double> values);

}  // namespace stepgate::gpu

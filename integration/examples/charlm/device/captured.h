// Work on the stream that is captured once as a CUDA graph and replayed from then on.
//
//   captured.run([&] { adam.enqueue(outputs); });     every step
//
// What is captured reads and writes the same addresses at every replay; whatever changes from step to step
// lies in device memory.
// Thread: that of the device. Order: destroyed before the device. Lock: none. Ownership: owns the graph.
#pragma once

#include <functional>

#include "integration/examples/charlm/device/device.h"

namespace stepgate::charlm {

class Captured {
 public:
  explicit Captured(Device& device) : device_(device) {}
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured();

  // Throws what `enqueue` throws, and std::runtime_error.
  void run(const std::function<void()>& enqueue);

 private:
  CUgraph_st* record(const std::function<void()>& enqueue);
  void capture(const std::function<void()>& enqueue);

  Device& device_;
  CUgraphExec_st* exec_ = nullptr;
};

}  // namespace stepgate::charlm

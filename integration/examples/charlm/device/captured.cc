#include "integration/examples/charlm/device/captured.h"

namespace stepgate::charlm {

Captured::~Captured() {
  if (exec_ != nullptr) device_.driver().try_call(device_.driver().GraphExecDestroy, exec_);
}

void Captured::run(const std::function<void()>& enqueue) {
  if (exec_ == nullptr) capture(enqueue);
  device_.driver().call(device_.driver().GraphLaunch, exec_, device_.stream());
}

void Captured::capture(const std::function<void()>& enqueue) {
  const CudaDriver& driver = device_.driver();
  CUgraph_st* graph = record(enqueue);
  const CudaResult made = driver.try_call(driver.GraphInstantiate, &exec_, graph, 0ull);
  driver.try_call(driver.GraphDestroy, graph);
  if (made == 0) return;
  exec_ = nullptr;
  throw std::runtime_error("cuGraphInstantiateWithFlags: " + driver.error_text(made));
}

// Of this thread alone: other threads of the process, NCCL's and the plugin's, go on as they like.
CUgraph_st* Captured::record(const std::function<void()>& enqueue) {
  const CudaDriver& driver = device_.driver();
  CUgraph_st* graph = nullptr;
  driver.call(driver.StreamBeginCapture, device_.stream(), kCudaCaptureThreadLocal);
  try {
    enqueue();
    driver.call(driver.StreamEndCapture, device_.stream(), &graph);
    return graph;
  } catch (...) {
    // A stream may not stay in a capture, whatever happened in it.
    driver.try_call(driver.StreamEndCapture, device_.stream(), &graph);
    if (graph != nullptr) driver.try_call(driver.GraphDestroy, graph);
    throw;
  }
}

}  // namespace stepgate::charlm

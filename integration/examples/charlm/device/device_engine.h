// The engine of a job on a GPU: from the backward's end to the new weights everything is enqueued on one
// stream, and whether the optimizer runs is decided there.
//
// Thread: that of the device. Order, lock: as engine.h says.
// Ownership: owns buckets, optimizer and judge; communicator and device are lent.
#pragma once

#include "integration/examples/charlm/device/captured.h"
#include "integration/examples/charlm/device/device_adam.h"
#include "integration/examples/charlm/device/device_gradients.h"
#include "integration/examples/charlm/device/device_judge.h"
#include "integration/examples/charlm/engine.h"

namespace stepgate::charlm {

class DeviceEngine final : public Engine {
 public:
  DeviceEngine(const Options& options, const std::vector<Parameter>& parameters,
               const std::vector<float>& initial, unsigned rank, unsigned world, Communicator& communicator,
               Device& device);

  void start(std::vector<unsigned char> state, std::uint64_t steps_done) override;
  Judge* judge() override { return judge_.get(); }
  Verdict finish(const float* gradients, float* weights) override;
  Adam::State optimizer() override { return adam_.state(); }
  bool restore(const Adam::State& state) override { return adam_.put(state); }
  void gather(const void* own, void* all, std::size_t numbers) override;

 private:
  void enqueue();
  void enqueue_optimizer();

  const Options& options_;
  unsigned rank_;
  unsigned world_;
  Communicator& communicator_;
  Device& device_;
  DeviceGradients gradients_;
  DeviceAdam adam_;
  std::unique_ptr<DeviceJudge> judge_;
  Captured captured_;
  bool warm_ = false;  // a step has been run
};

}  // namespace stepgate::charlm

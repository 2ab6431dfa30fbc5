// The engine of a job on host memory: every call is done when it returns.
//
// Thread, order, lock, ownership: as engine.h says.
#pragma once

#include "integration/examples/charlm/engine.h"
#include "integration/examples/charlm/strategy.h"

namespace stepgate::charlm {

class HostEngine final : public Engine {
 public:
  HostEngine(const Options& options, const std::vector<Parameter>& parameters,
             const std::vector<float>& initial, unsigned rank, unsigned world, Communicator& communicator);

  void start(std::vector<unsigned char> state, std::uint64_t steps_done) override;
  Judge* judge() override { return judge_.get(); }
  Verdict finish(const float* gradients, float* weights) override;
  Adam::State optimizer() override { return strategy_->adam().state(); }
  bool restore(const Adam::State& state) override { return strategy_->adam().restore(state); }
  void gather(const void* own, void* all, std::size_t numbers) override;

 private:
  const Options& options_;
  unsigned rank_;
  unsigned world_;
  Communicator& communicator_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<Judge> judge_;
};

}  // namespace stepgate::charlm

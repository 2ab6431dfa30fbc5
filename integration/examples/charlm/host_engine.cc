#include "integration/examples/charlm/host_engine.h"

#include <utility>

namespace stepgate::charlm {

HostEngine::HostEngine(const Options& options, const std::vector<Parameter>& parameters,
                       const std::vector<float>& initial, unsigned rank, unsigned world,
                       Communicator& communicator)
    : options_(options),
      rank_(rank),
      world_(world),
      communicator_(communicator),
      strategy_(make_strategy(options, parameters, initial, rank, world, communicator)) {}

void HostEngine::start(std::vector<unsigned char> state, std::uint64_t steps_done) {
  judge_ = make_judge({options_, rank_, world_, communicator_, *strategy_, std::move(state), steps_done});
}

Verdict HostEngine::finish(const float* gradients, float* weights) {
  strategy_->reduce(gradients);
  Verdict verdict = judge_->end();
  if (!verdict.row.skip) strategy_->update(verdict.grad_scale);
  // After a skip as well: without an agreement another rank may have applied the step, and staying
  // away from its collective would hang it.
  strategy_->share(weights);
  return verdict;
}

void HostEngine::gather(const void* own, void* all, std::size_t numbers) {
  communicator_.all_gather(own, all, numbers, ncclUint64);
}

}  // namespace stepgate::charlm

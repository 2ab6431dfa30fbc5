#include "integration/examples/charlm/device/device_engine.h"

#include <stdexcept>
#include <utility>

#include "integration/examples/charlm/device/gate_on_stream.h"
#include "integration/examples/charlm/device/naive_on_device.h"

namespace stepgate::charlm {
namespace {

std::vector<DeviceAdam::Target> targets_of(const DeviceGradients& gradients) {
  std::vector<DeviceAdam::Target> targets;
  for (std::size_t i = 0; i < gradients.pieces().size(); ++i) {
    targets.push_back({gradients.pieces()[i], gradients.reduced(i), gradients.new_weights(i)});
  }
  return targets;
}

}  // namespace

DeviceEngine::DeviceEngine(const Options& options, const std::vector<Parameter>& parameters,
                           const std::vector<float>& initial, unsigned rank, unsigned world,
                           Communicator& communicator, Device& device)
    : options_(options),
      rank_(rank),
      world_(world),
      communicator_(communicator),
      device_(device),
      gradients_(device, options, parameters, rank, world, communicator),
      adam_(device, targets_of(gradients_), options.grad_type, gradients_.shares(), options.learning_rate),
      captured_(device) {
  const std::vector<float> masters = gather_pieces(gradients_.buckets(), gradients_.pieces(), initial);
  const std::vector<float> zeros(masters.size());
  adam_.put({0, masters, zeros, zeros});
}

void DeviceEngine::start(std::vector<unsigned char> state, std::uint64_t steps_done) {
  const JudgeContext context{options_,         rank_,      world_,          communicator_, gradients_,
                             std::move(state), steps_done, device_.stream()};
  judge_ = GateOnStream::try_make(context, device_);
  if (judge_ == nullptr) judge_ = std::make_unique<NaiveOnDevice>(context, device_);
  if (options_.graph == Graph::kStep && !judge_->capturable()) {
    throw std::invalid_argument("--graph is step; allowed without a gate that decides: none, optimizer");
  }
}

Verdict DeviceEngine::finish(const float* gradients, float* weights) {
  gradients_.stage(gradients);
  // The first step is never captured: libraries connect and allocate in it.
  if (options_.graph == Graph::kStep && warm_) {
    captured_.run([this] { enqueue(); });
  } else {
    enqueue();
  }
  warm_ = true;
  device_.synchronize();  // the one wait of a step: the model is host code and needs its weights
  gradients_.read_weights(weights);
  return judge_->end();
}

// Nobody looks at the decision here: after a skip the same work is enqueued, and its kernels return.
void DeviceEngine::enqueue() {
  judge_->enqueue_begin();
  gradients_.enqueue_reduce();
  judge_->enqueue_end();
  if (options_.graph == Graph::kOptimizer) {
    captured_.run([this] { enqueue_optimizer(); });
  } else {
    enqueue_optimizer();
  }
  gradients_.enqueue_share();
  judge_->enqueue_copy();
}

void DeviceEngine::enqueue_optimizer() {
  adam_.enqueue(judge_->outputs());
}

void DeviceEngine::gather(const void* own, void* all, std::size_t numbers) {
  auto* from = device_.memory<std::uint64_t>(numbers);
  auto* to = device_.memory<std::uint64_t>(numbers * world_);
  device_.upload(from, own, numbers * sizeof(std::uint64_t));
  communicator_.all_gather(from, to, numbers, ncclUint64);
  device_.download(all, to, numbers * world_ * sizeof(std::uint64_t));
  device_.synchronize();
}

}  // namespace stepgate::charlm

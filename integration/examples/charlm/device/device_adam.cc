#include "integration/examples/charlm/device/device_adam.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "integration/examples/charlm/half.h"

namespace stepgate::charlm {
namespace {

constexpr std::size_t kElementsPerThread = 8;

const char* kernel_name(GradType type) {
  switch (type) {
    case GradType::kFp16: return "charlm_adam_fp16";
    case GradType::kBf16: return "charlm_adam_bf16";
    case GradType::kFp32: break;
  }
  return "charlm_adam_fp32";
}

unsigned blocks_for(std::size_t count) {
  const std::size_t per_block = kAdamThreads * kElementsPerThread;
  return static_cast<unsigned>(std::min<std::size_t>((count + per_block - 1) / per_block, kAdamBlocks));
}

std::size_t elements_of(const std::vector<DeviceAdam::Target>& targets) {
  std::size_t count = 0;
  for (const DeviceAdam::Target& target : targets) count += target.piece.count;
  return count;
}

}  // namespace

std::vector<AdamRates> rate_table(double learning_rate) {
  std::vector<AdamRates> rates;
  for (std::uint64_t n = 1;; ++n) {
    rates.push_back(adam_rates(learning_rate, n));
    const auto updates = static_cast<double>(n);
    if (1.0 - std::pow(kAdamBeta1, updates) == 1.0 && 1.0 - std::pow(kAdamBeta2, updates) == 1.0)
      return rates;
  }
}

DeviceAdam::DeviceAdam(Device& device, std::vector<Target> targets, GradType type, double shares,
                       double learning_rate)
    : count_(elements_of(targets)),
      device_(device),
      targets_(std::move(targets)),
      shares_(shares),
      begin_(device.kernel("charlm_adam_begin")),
      update_(device.kernel(kernel_name(type))),
      block_(device.memory<AdamBlock>(1)),
      masters_(device.memory<float>(count_)),
      first_(device.memory<float>(count_)),
      second_(device.memory<float>(count_)) {
  const std::vector<AdamRates> rates = rate_table(learning_rate);
  rate_count_ = rates.size();
  rates_ = device.memory<AdamRates>(rates.size());
  device_.upload(rates_, rates.data(), rates.size() * sizeof(AdamRates));
  device_.synchronize();
}

bool DeviceAdam::put(const Adam::State& state) {
  if (state.masters.size() != count_ || state.first_moments.size() != count_ ||
      state.second_moments.size() != count_) {
    return false;
  }
  const AdamBlock block{state.updates, {}};
  device_.upload(block_, &block, sizeof block);
  device_.upload(masters_, state.masters.data(), count_ * sizeof(float));
  device_.upload(first_, state.first_moments.data(), count_ * sizeof(float));
  device_.upload(second_, state.second_moments.data(), count_ * sizeof(float));
  std::vector<std::uint16_t> weights(count_);
  std::transform(state.masters.begin(), state.masters.end(), weights.begin(), half_bits);
  for (const Target& target : targets_) {
    const Piece& piece = target.piece;
    device_.upload(target.weights, weights.data() + piece.optimizer_first,
                   piece.count * sizeof(std::uint16_t));
  }
  device_.synchronize();
  return true;
}

Adam::State DeviceAdam::state() {
  AdamBlock block{};
  Adam::State state{0, std::vector<float>(count_), std::vector<float>(count_), std::vector<float>(count_)};
  device_.download(&block, block_, sizeof block);
  device_.download(state.masters.data(), masters_, count_ * sizeof(float));
  device_.download(state.first_moments.data(), first_, count_ * sizeof(float));
  device_.download(state.second_moments.data(), second_, count_ * sizeof(float));
  device_.synchronize();
  state.updates = block.updates;
  return state;
}

void DeviceAdam::enqueue(const stepgate_outputs_t* outputs) {
  device_.launch(begin_, 1, kBeginThreads, AdamBeginArguments{outputs, block_, rates_, rate_count_});
  for (const Target& target : targets_) {
    const std::size_t first = target.piece.optimizer_first;
    if (target.piece.count == 0) continue;  // a shard of padding alone
    device_.launch(update_, blocks_for(target.piece.count), kAdamThreads,
                   AdamUpdateArguments{outputs, block_, target.gradients, masters_ + first, first_ + first,
                                       second_ + first, target.weights, target.piece.count, shares_});
  }
}

}  // namespace stepgate::charlm

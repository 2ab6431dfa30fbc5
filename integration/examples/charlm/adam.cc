#include "integration/examples/charlm/adam.h"

#include <cmath>
#include <utility>

namespace stepgate::charlm {
namespace {

constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.99;
constexpr float kEpsilon = 1e-8f;

}  // namespace

Adam::Adam(std::vector<float> masters, double learning_rate)
    : learning_rate_(learning_rate),
      masters_(std::move(masters)),
      first_(masters_.size(), 0.0f),
      second_(masters_.size(), 0.0f) {}

void Adam::begin_update() {
  ++updates_;
  const auto n = static_cast<double>(updates_);
  step_size_ = static_cast<float>(learning_rate_ / (1.0 - std::pow(kBeta1, n)));
  second_correction_ = static_cast<float>(1.0 / (1.0 - std::pow(kBeta2, n)));
}

void Adam::update(std::size_t first, std::size_t count, const float* gradients) {
  constexpr auto kKeep1 = static_cast<float>(kBeta1);
  constexpr auto kKeep2 = static_cast<float>(kBeta2);
  constexpr auto kTake1 = static_cast<float>(1 - kBeta1);
  constexpr auto kTake2 = static_cast<float>(1 - kBeta2);
  float* master = masters_.data() + first;
  float* m = first_.data() + first;
  float* v = second_.data() + first;
  for (std::size_t i = 0; i < count; ++i) {
    const float g = gradients[i];
    m[i] = kKeep1 * m[i] + kTake1 * g;
    v[i] = kKeep2 * v[i] + kTake2 * g * g;
    master[i] -= step_size_ * m[i] / (std::sqrt(v[i] * second_correction_) + kEpsilon);
  }
}

Adam::State Adam::state() const {
  return {updates_, masters_, first_, second_};
}

bool Adam::restore(const State& state) {
  const std::size_t size = masters_.size();
  if (state.masters.size() != size || state.first_moments.size() != size ||
      state.second_moments.size() != size) {
    return false;
  }
  updates_ = state.updates;
  masters_ = state.masters;
  first_ = state.first_moments;
  second_ = state.second_moments;
  return true;
}

}  // namespace stepgate::charlm

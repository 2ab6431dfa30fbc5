#include "integration/examples/charlm/adam.h"

#include <cmath>
#include <utility>

namespace stepgate::charlm {

AdamRates adam_rates(double learning_rate, std::uint64_t n) {
  const auto updates = static_cast<double>(n);
  return {static_cast<float>(learning_rate / (1.0 - std::pow(kAdamBeta1, updates))),
          static_cast<float>(1.0 / (1.0 - std::pow(kAdamBeta2, updates)))};
}

Adam::Adam(std::vector<float> masters, double learning_rate)
    : learning_rate_(learning_rate),
      masters_(std::move(masters)),
      first_(masters_.size(), 0.0f),
      second_(masters_.size(), 0.0f) {}

void Adam::begin_update() {
  rates_ = adam_rates(learning_rate_, ++updates_);
}

void Adam::update(std::size_t first, std::size_t count, const float* gradients) {
  float* master = masters_.data() + first;
  float* m = first_.data() + first;
  float* v = second_.data() + first;
  for (std::size_t i = 0; i < count; ++i) adam_element(gradients[i], rates_, m[i], v[i], master[i]);
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

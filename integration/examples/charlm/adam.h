// Adam with fp32 master weights, on whatever piece of the weights this rank owns.
//
// Thread: one per object. Order: update() once per applied step over every element. Lock: none.
// Ownership: owns masters and moments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "integration/examples/charlm/adam_rule.h"

namespace stepgate::charlm {

// Of the update that is the n-th, counted from 1.
AdamRates adam_rates(double learning_rate, std::uint64_t n);

class Adam {
 public:
  Adam(std::vector<float> masters, double learning_rate);

  // Starts an applied step: bias corrections move on.
  void begin_update();
  // gradients: of the elements [first, first + count).
  void update(std::size_t first, std::size_t count, const float* gradients);
  const std::vector<float>& masters() const { return masters_; }

  // Everything that decides the future, for a checkpoint.
  struct State {
    std::uint64_t updates = 0;
    std::vector<float> masters, first_moments, second_moments;
  };
  State state() const;
  // False, and nothing changed, when the sizes differ.
  bool restore(const State& state);

 private:
  double learning_rate_;
  std::uint64_t updates_ = 0;
  std::vector<float> masters_;
  std::vector<float> first_;
  std::vector<float> second_;
  AdamRates rates_;
};

}  // namespace stepgate::charlm

// Adam twice, on the host and over the stand-in driver, fed with the same gradients and decisions.
//
// Thread: the test's. Order: step() by step(). Lock: none. Ownership: owns both; the stand-in outlives it.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "integration/examples/charlm/device/captured.h"
#include "integration/examples/charlm/device/device_adam.h"
#include "tests/collectives/device_cuda_driver/standin.h"

namespace stepgate::test {

struct AdamJobOptions {
  charlm::GradType type = charlm::GradType::kFp32;
  double shares = 1;
  bool captured = false;
};

class AdamJob {
 public:
  explicit AdamJob(const AdamJobOptions& options);

  // Random gradients of about `size`, times grad_scale * shares. On a skip the host does nothing, and the
  // device is given a NaN among the gradients.
  void step(bool skip, float grad_scale, float size = 1e-2f);
  // Masters, moments, number of updates and fp16 weights: equal in bits.
  void expect_equal();
  // What the device holds, from now on on both sides.
  void restart_from(const charlm::Adam::State& state);
  charlm::Adam::State device_state() { return adam_.state(); }
  charlm::Device& device() { return device_; }

 private:
  std::vector<charlm::DeviceAdam::Target> allocate();
  std::vector<float> random_values(float size);
  void enqueue();

  AdamJobOptions options_;
  charlm::Device device_;
  std::vector<charlm::Piece> pieces_;
  std::size_t count_ = 0;
  std::vector<void*> gradients_;
  std::vector<charlm::DeviceAdam::Target> targets_;
  stepgate_outputs_t* outputs_;
  charlm::DeviceAdam adam_;
  charlm::Captured captured_;
  charlm::Adam host_;
  std::mt19937 random_;
};

std::uint64_t different(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace stepgate::test

// Adam in device memory: masters, moments and the number of updates never leave it during training, and a
// step that the gate skips is one in which the kernels return at once. The host does not ask.
//
// Thread: that of the device. Order: put() once before the first step; enqueue() once a step, after the
// gate's step end on the same stream. Lock: none. Ownership: memory is the device's.
#pragma once

#include <cstdint>
#include <vector>

#include "integration/examples/charlm/adam.h"
#include "integration/examples/charlm/buckets.h"
#include "integration/examples/charlm/device/adam_arguments.h"
#include "integration/examples/charlm/device/device.h"

namespace stepgate::charlm {

class DeviceAdam {
 public:
  // Where one piece's reduced gradients lie, and where its new weights go. Device memory.
  struct Target {
    Piece piece;
    const void* gradients;
    std::uint16_t* weights;  // fp16
  };

  DeviceAdam(Device& device, std::vector<Target> targets, GradType type, double shares, double learning_rate);

  // Throws nothing and changes nothing but returns false when the sizes differ. Waits.
  bool put(const Adam::State& state);
  // Waits.
  Adam::State state();

  // outputs: device memory.
  void enqueue(const stepgate_outputs_t* outputs);

 private:
  std::size_t count_ = 0;
  Device& device_;
  std::vector<Target> targets_;
  double shares_;
  CUfunc_st* begin_;
  CUfunc_st* update_;
  AdamBlock* block_;
  AdamRates* rates_;
  std::uint64_t rate_count_ = 0;
  float* masters_;
  float* first_;
  float* second_;
};

// Of the updates 1, 2, ... up to the one from which on nothing changes any more. The host makes them, since
// its pow() and the device's differ in the last bits.
std::vector<AdamRates> rate_table(double learning_rate);

}  // namespace stepgate::charlm

// The kernels that ours are measured by, and one that plays the optimizer. Plain data, host and device.
//
// Thread: any. Order, lock: none. Ownership: every pointer names memory of the launching device.
#pragma once

#include <cstdint>

namespace stepgate::gpu {

// baseline_read_4, baseline_read_8: read everything, write only what no data makes them write.
struct ReadArguments {
  const void* data;  // 16-byte aligned
  std::uint64_t vectors;
  unsigned* sink;
};

// baseline_copy: 16 bytes at a time.
struct CopyArguments {
  const void* from;
  void* to;
  std::uint64_t vectors;
};

// baseline_optimizer: weight -= rate * multiplier * gradient, unless found_inf is exactly 1; counts the
// steps that it took. Reads found_inf and multiplier where the plugin keeps them.
struct OptimizerArguments {
  float* weights;
  const float* gradients;
  std::uint64_t count;
  const float* found_inf;
  const float* multiplier;
  unsigned long long* steps_taken;
  float rate;
};

inline constexpr unsigned kBaselineThreads = 256;

}  // namespace stepgate::gpu

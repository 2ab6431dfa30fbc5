// What charlm's kernels take: one struct each, by value. Pointers are device memory and never change, so
// that a launch may be captured once and replayed.
//
// Thread, order, lock: none. Ownership: the pointers are DeviceAdam's and the gate's.
#pragma once

#include <cstdint>

#include "integration/examples/charlm/adam_rule.h"
#include "plugin/include/stepgate/stepgate.h"

namespace stepgate::charlm {

inline constexpr unsigned kBeginThreads = 32;  // of which one works
inline constexpr unsigned kAdamThreads = 128;
inline constexpr unsigned kAdamBlocks = 1024;  // at most; each thread takes every n-th element

// The optimizer's own numbers. They move with applied steps alone, and only on the device.
struct AdamBlock {
  std::uint64_t updates;
  AdamRates rates;  // of the update that is being made
};

struct AdamBeginArguments {
  const stepgate_outputs_t* outputs;  // the gate's, at their fixed address
  AdamBlock* block;
  const AdamRates* rates;  // of update 1, 2, ...; the last stands for all that follow
  std::uint64_t rate_count;
};

struct AdamUpdateArguments {
  const stepgate_outputs_t* outputs;
  const AdamBlock* block;
  const void* gradients;  // reduced, scaled; their type is the kernel's
  float* masters;
  float* first_moments;
  float* second_moments;
  std::uint16_t* weights;  // fp16, for the model
  std::uint64_t count;
  double shares;  // gradients that the reduction has added up without dividing
};

// X(NAME, ARGUMENTS): every kernel.
#define CHARLM_KERNELS(X)                  \
  X(charlm_adam_begin, AdamBeginArguments) \
  X(charlm_adam_fp32, AdamUpdateArguments) \
  X(charlm_adam_fp16, AdamUpdateArguments) \
  X(charlm_adam_bf16, AdamUpdateArguments)

}  // namespace stepgate::charlm

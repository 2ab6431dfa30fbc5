// charlm's optimizer on the device. It obeys the gate without the host: a step that the gate skips changes
// no weight, no moment and not the number of updates.
//
// Compiled by nvcc into charlm's own fatbin, and by g++ for the stand-in. No host code.
#include "integration/examples/charlm/device/adam_arguments.h"
#include "integration/examples/charlm/device/formats.h"

namespace stepgate::charlm {

// Exactly 0 on an applied step and 1 on any other; all that is not 0 skips.
__device__ __forceinline__ bool skipped(const stepgate_outputs_t& outputs) {
  return !(outputs.found_inf == 0.0f);
}

// The one thread that moves the number of updates, before the kernels that read its rates.
__device__ __forceinline__ void begin_update(const AdamBeginArguments& a) {
  if (threadIdx.x != 0 || skipped(*a.outputs)) return;
  const std::uint64_t n = a.block->updates + 1;
  a.block->updates = n;
  a.block->rates = a.rates[n < a.rate_count ? n - 1 : a.rate_count - 1];
}

template <class Gradient, class Widen>
__device__ __forceinline__ void update(const AdamUpdateArguments& a, Widen widen) {
  if (skipped(*a.outputs)) return;
  const float divisor = adam_divisor(a.outputs->grad_scale, a.shares);
  const AdamRates rates = a.block->rates;
  const auto* gradients = static_cast<const Gradient*>(a.gradients);
  const std::uint64_t threads = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < a.count;
       i += threads) {
    const float g = widen(gradients[i]) / divisor;
    adam_element(g, rates, a.first_moments[i], a.second_moments[i], a.masters[i]);
    a.weights[i] = narrow_fp16(a.masters[i]);
  }
}

struct KeepFp32 {
  __device__ __forceinline__ float operator()(float x) const { return x; }
};
struct WidenFp16 {
  __device__ __forceinline__ float operator()(std::uint16_t x) const { return widen_fp16(x); }
};
struct WidenBf16 {
  __device__ __forceinline__ float operator()(std::uint16_t x) const { return widen_bf16(x); }
};

}  // namespace stepgate::charlm

using namespace stepgate::charlm;

extern "C" __global__ void __launch_bounds__(kBeginThreads)
    charlm_adam_begin(const __grid_constant__ AdamBeginArguments a) {
  begin_update(a);
}

extern "C" __global__ void __launch_bounds__(kAdamThreads)
    charlm_adam_fp32(const __grid_constant__ AdamUpdateArguments a) {
  update<float>(a, KeepFp32());
}

extern "C" __global__ void __launch_bounds__(kAdamThreads)
    charlm_adam_fp16(const __grid_constant__ AdamUpdateArguments a) {
  update<std::uint16_t>(a, WidenFp16());
}

extern "C" __global__ void __launch_bounds__(kAdamThreads)
    charlm_adam_bf16(const __grid_constant__ AdamUpdateArguments a) {
  update<std::uint16_t>(a, WidenBf16());
}

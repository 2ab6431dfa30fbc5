// See baselines.h. Nothing here is shared with the kernels that are measured.
#include "tests/gpu/baselines.h"

namespace {

using namespace stepgate::gpu;

// LOADS independent 16-byte loads in flight per thread; the grid strides over the data.
template <unsigned LOADS>
__device__ void read_all(const ReadArguments& a) {
  const auto* data = static_cast<const uint4*>(a.data);
  const std::uint64_t threads = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  std::uint64_t at = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  unsigned seen = 0;
  for (; at + (LOADS - 1) * threads < a.vectors; at += LOADS * threads) {
    uint4 v[LOADS];
#pragma unroll
    for (unsigned i = 0; i < LOADS; ++i) v[i] = __ldg(data + at + i * threads);
#pragma unroll
    for (unsigned i = 0; i < LOADS; ++i) seen |= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  }
  for (; at < a.vectors; at += threads) seen |= __ldg(data + at).x;
  if (seen == 0x12345678u) *a.sink = seen;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kBaselineThreads) baseline_read_4(const ReadArguments a) {
  read_all<4>(a);
}

extern "C" __global__ void __launch_bounds__(kBaselineThreads) baseline_read_8(const ReadArguments a) {
  read_all<8>(a);
}

extern "C" __global__ void __launch_bounds__(kBaselineThreads) baseline_copy(const CopyArguments a) {
  const std::uint64_t threads = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  std::uint64_t at = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const auto* from = static_cast<const uint4*>(a.from);
  auto* to = static_cast<uint4*>(a.to);
  for (; at + 3 * threads < a.vectors; at += 4 * threads) {
    uint4 v[4];
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) v[i] = from[at + i * threads];
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) to[at + i * threads] = v[i];
  }
  for (; at < a.vectors; at += threads) to[at] = from[at];
}

extern "C" __global__ void __launch_bounds__(kBaselineThreads)
    baseline_optimizer(const OptimizerArguments a) {
  if (*a.found_inf == 1.0f) return;
  const std::uint64_t threads = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  const std::uint64_t first = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::uint64_t i = first; i < a.count; i += threads) {
    a.weights[i] -= a.rate * *a.multiplier * a.gradients[i];
  }
  if (first == 0) ++*a.steps_taken;
}

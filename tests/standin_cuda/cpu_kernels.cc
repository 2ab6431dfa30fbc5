// This project's kernels, compiled for the CPU from the source that the fatbin is made of.
#include "tests/standin_cuda/device_runtime.h"
// After CUDA's words.
#include "collectives/device/cuda/kernels/kernels.cu"
#include "tests/standin_cuda/driver/kernel_lookup.h"

namespace stepgate::standin {
namespace {

using namespace stepgate::cuda;

#define STEPGATE_CPU_KERNEL(NAME, ARGUMENTS)                                              \
  {#NAME, sizeof(ARGUMENTS), [](unsigned grid, unsigned block, unsigned, const void* a) { \
     run_grid(grid, block, [a] { NAME(*static_cast<const ARGUMENTS*>(a)); });             \
   }},
constexpr CpuKernel kKernels[] = {STEPGATE_CUDA_KERNELS(STEPGATE_CPU_KERNEL)};
#undef STEPGATE_CPU_KERNEL

}  // namespace

std::span<const CpuKernel> all_kernels() {
  return kKernels;
}

const CpuKernel* find_kernel(const char* name) {
  for (const CpuKernel& k : kKernels) {
    if (std::strcmp(k.name, name) == 0) return &k;
  }
  return find_charlm_kernel(name);
}

}  // namespace stepgate::standin

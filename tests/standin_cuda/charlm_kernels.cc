// The kernels of the example charlm, compiled for the CPU from the source that its fatbin is made of.
#include "tests/standin_cuda/device_runtime.h"
// After CUDA's words.
#include "integration/examples/charlm/device/adam_kernels.cu"
#include "tests/standin_cuda/driver/kernel_lookup.h"

namespace stepgate::standin {
namespace {

#define STEPGATE_CPU_KERNEL(NAME, ARGUMENTS)                                              \
  {#NAME, sizeof(ARGUMENTS), [](unsigned grid, unsigned block, unsigned, const void* a) { \
     run_grid(grid, block, [a] { NAME(*static_cast<const ARGUMENTS*>(a)); });             \
   }},
constexpr CpuKernel kKernels[] = {CHARLM_KERNELS(STEPGATE_CPU_KERNEL)};
#undef STEPGATE_CPU_KERNEL

}  // namespace

const CpuKernel* find_charlm_kernel(const char* name) {
  for (const CpuKernel& k : kKernels) {
    if (std::strcmp(k.name, name) == 0) return &k;
  }
  return nullptr;
}

}  // namespace stepgate::standin

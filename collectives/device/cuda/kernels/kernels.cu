// Every kernel of the fatbin, by name; arguments.h lists them. The one source that nvcc compiles, and
// that the CPU stand-in compiles as it is. No host code.
#include "collectives/device/cuda/kernels/absorbed.h"
#include "collectives/device/cuda/kernels/apply.h"
#include "collectives/device/cuda/kernels/finish.h"
#include "collectives/device/cuda/kernels/poke.h"
#include "collectives/device/cuda/kernels/scan.h"
#include "collectives/device/cuda/kernels/step.h"

using namespace stepgate::cuda;

#define STEPGATE_SCAN(NAME, FORMAT)                                     \
  extern "C" __global__ void __launch_bounds__(                         \
      kScanTuning<sizeof(FORMAT::Element)>.warps_per_block* kWarpLanes, \
      kScanTuning<sizeof(FORMAT::Element)>.blocks_per_sm)               \
      stepgate_scan_##NAME(const __grid_constant__ ScanArguments a) {   \
    scan<FORMAT>(a);                                                    \
  }
STEPGATE_SCAN(fp32, Fp32Format)
STEPGATE_SCAN(fp16, Fp16Format)
STEPGATE_SCAN(bf16, Bf16Format)
STEPGATE_SCAN(fp64, Fp64Format)
STEPGATE_SCAN(fp8_e4m3, Fp8E4M3Format)
STEPGATE_SCAN(fp8_e5m2, Fp8E5M2Format)

#define STEPGATE_UNSCALE(NAME, FORMAT, OP)                                 \
  extern "C" __global__ void __launch_bounds__(                            \
      kUnscaleTuning<sizeof(FORMAT::Element)>.warps_per_block* kWarpLanes, \
      kUnscaleTuning<sizeof(FORMAT::Element)>.blocks_per_sm)               \
      stepgate_unscale_##NAME(const __grid_constant__ ScanArguments a) {   \
    scan<InPlace<FORMAT, OP>>(a);                                          \
  }
STEPGATE_UNSCALE(fp32, Fp32Format, ApplyFp32)
STEPGATE_UNSCALE(fp16, Fp16Format, ApplyFp16)
STEPGATE_UNSCALE(bf16, Bf16Format, ApplyBf16)
STEPGATE_UNSCALE(fp64, Fp64Format, ApplyFp64)

#define STEPGATE_APPLY(NAME, FUNCTION, OP)                                               \
  extern "C" __global__ void __launch_bounds__(kApplyTuning.warps_per_block* kWarpLanes, \
                                               kApplyTuning.blocks_per_sm)               \
      stepgate_##NAME(const __grid_constant__ ApplyArguments a) {                        \
    FUNCTION<OP>(a);                                                                     \
  }
STEPGATE_APPLY(apply_fp32, apply_in_place, ApplyFp32)
STEPGATE_APPLY(apply_fp16, apply_in_place, ApplyFp16)
STEPGATE_APPLY(apply_bf16, apply_in_place, ApplyBf16)
STEPGATE_APPLY(apply_fp64, apply_in_place, ApplyFp64)
STEPGATE_APPLY(widen_fp16, apply_out_of_place, WidenFp16)
STEPGATE_APPLY(widen_bf16, apply_out_of_place, WidenBf16)

#define STEPGATE_ABSORBED(BITS)                                                          \
  extern "C" __global__ void __launch_bounds__(kApplyTuning.warps_per_block* kWarpLanes, \
                                               kApplyTuning.blocks_per_sm)               \
      stepgate_absorbed_##BITS(const __grid_constant__ UpdateArguments a) {              \
    absorbed<std::uint##BITS##_t>(a);                                                    \
  }
STEPGATE_ABSORBED(16)
STEPGATE_ABSORBED(32)
STEPGATE_ABSORBED(64)

// The body runs in thread 0 alone, over `a`.
#define STEPGATE_ONE_THREAD(NAME, ARGUMENTS, BODY)           \
  extern "C" __global__ void __launch_bounds__(kStepThreads) \
      stepgate_##NAME(const __grid_constant__ ARGUMENTS a) { \
    if (threadIdx.x == 0) BODY;                              \
  }
STEPGATE_ONE_THREAD(decide, DecideArguments, stepgate::decide_set(*a.block, a.set, a.fields))
STEPGATE_ONE_THREAD(veto, BlockArguments, a.block->veto = 1)
STEPGATE_ONE_THREAD(mark_applied, BlockArguments, stepgate::mark_applied(*a.block, a.set))

#define STEPGATE_BLOCK(NAME, ARGUMENTS, FUNCTION)               \
  extern "C" __global__ void __launch_bounds__(kStepThreads, 1) \
      stepgate_##NAME(const __grid_constant__ ARGUMENTS a) {    \
    FUNCTION(a);                                                \
  }
STEPGATE_BLOCK(begin_step, BeginArguments, begin)
STEPGATE_BLOCK(summarize, SummarizeArguments, summarize)
STEPGATE_BLOCK(finish_step, FinishArguments, finish)
STEPGATE_BLOCK(poke, PokeArguments, poke)

// CudaDevice: passes over elements that are no scans.
#include <algorithm>

#include "collectives/device/cuda/checks.h"
#include "collectives/device/cuda/cuda_device.h"

namespace stepgate::device {

using cuda::ContextScope;
using cuda::Kernel;

namespace kernels = ::stepgate::cuda;

namespace {

constexpr std::uint64_t kPerThread = 8;

// In the order of ElementType.
constexpr Kernel kApplies[] = {Kernel::stepgate_apply_fp32, Kernel::stepgate_apply_fp16,
                               Kernel::stepgate_apply_bf16, Kernel::stepgate_apply_fp64};
constexpr std::uint32_t kApplyKernels = 6;

// Kernels of apply by number: in place by type, then out of place.
std::uint32_t apply_index(const Apply& job) {
  if (job.out == nullptr) return static_cast<std::uint32_t>(job.stored);
  return job.stored == ElementType::kFp16 ? 4 : 5;
}

Kernel apply_kernel(std::uint32_t index) {
  if (index < 4) return kApplies[index];
  return index == 4 ? Kernel::stepgate_widen_fp16 : Kernel::stepgate_widen_bf16;
}

Kernel absorbed_kernel(ElementType stored) {
  switch (element_size(stored)) {
    case 2: return Kernel::stepgate_absorbed_16;
    case 8: return Kernel::stepgate_absorbed_64;
    default: return Kernel::stepgate_absorbed_32;
  }
}

std::uint64_t chunks_of(const Apply& job) {
  return kernels::ceil_divide(job.count, kernels::kApplyChunk);
}

}  // namespace

// As many blocks as there is work for, at most as many as the device holds.
cuda::Shape CudaDevice::blocks_for(std::uint64_t work_blocks, const cuda::PassShape& p) const noexcept {
  const std::uint64_t most = std::uint64_t{context_->multiprocessors()} * p.blocks_per_sm;
  return {static_cast<std::uint32_t>(std::clamp<std::uint64_t>(work_blocks, 1, most)),
          p.warps_per_block * kernels::kWarpLanes};
}

cuda::PassShape CudaDevice::apply_shape() const noexcept {
  const kernels::ApplyTuning t = kernels::apply_tuning(context_->architecture());
  return {t.warps_per_block, t.blocks_per_sm};
}

Code CudaDevice::apply(Stream s, const Apply& job) noexcept {
  return apply_all(s, {&job, 1});
}

Code CudaDevice::apply_all(Stream s, std::span<const Apply> jobs) noexcept {
  std::uint32_t present = 0;
  for (const Apply& job : jobs) {
    if (const Code code = cuda::check_apply(job); code != Code::kOk) return code;
    if (job.count != 0) present |= 1u << apply_index(job);
  }
  if (present == 0) return Code::kOk;
  const ContextScope scope(*context_, "apply");
  if (!scope) return scope.code();
  for (std::uint32_t i = 0; i < kApplyKernels; ++i) {
    if ((present >> i & 1u) == 0) continue;
    if (const Code code = apply_kind(s, i, jobs); code != Code::kOk) return code;
  }
  return Code::kOk;
}

// The jobs of one kernel; those of another decision go into another launch.
Code CudaDevice::apply_kind(Stream s, std::uint32_t index, std::span<const Apply> jobs) noexcept {
  kernels::ApplyArguments a;
  a.outputs = nullptr;
  a.piece_count = a.chunk_count = 0;
  const auto flush = [&] {
    if (a.piece_count == 0) return Code::kOk;
    const Code code =
        kernels_->launch("apply", apply_kernel(index), blocks_for(a.chunk_count, apply_shape()), s, a);
    a.piece_count = a.chunk_count = 0;
    return code;
  };
  for (const Apply& job : jobs) {
    if (job.count == 0 || apply_index(job) != index) continue;
    const bool full = a.piece_count == kernels::kApplyPieces;
    if (full || a.outputs != job.outputs) {
      if (const Code code = flush(); code != Code::kOk) return code;
    }
    a.outputs = job.outputs;
    a.piece[a.piece_count] = {job.data, job.out, job.count};
    a.first_chunk[a.piece_count++] = a.chunk_count;
    a.chunk_count += static_cast<std::uint32_t>(chunks_of(job));
  }
  return flush();
}

// Counted by atomics, from zero on.
Code CudaDevice::observe_update(Stream s, const ObserveUpdate& job) noexcept {
  if (const Code code = cuda::check_update(job); code != Code::kOk) return code;
  const ContextScope scope(*context_, "observe_update");
  if (!scope) return scope.code();
  const auto total = static_cast<cuda::DevicePtr>(reinterpret_cast<std::uintptr_t>(job.total));
  const Code cleared =
      call_driver("observe_update", context_->driver().api().MemsetD8Async, total,
                  static_cast<unsigned char>(0), sizeof *job.total, static_cast<cuda::StreamHandle>(s));
  if (cleared != Code::kOk) return cleared;
  static_assert(sizeof(UpdateStats) == 3 * sizeof(unsigned long long), "the kernel counts in words");
  const kernels::UpdateArguments a{job.before, job.after, job.update, job.count,
                                   reinterpret_cast<unsigned long long*>(job.total)};
  const cuda::PassShape p = apply_shape();
  const std::uint64_t per_block = p.warps_per_block * kernels::kWarpLanes * kPerThread;
  return kernels_->launch("observe_update", absorbed_kernel(job.stored),
                          blocks_for(kernels::ceil_divide(job.count, per_block), p), s, a);
}

}  // namespace stepgate::device

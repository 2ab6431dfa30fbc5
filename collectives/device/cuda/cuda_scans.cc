// CudaDevice: scans, one by one or many in a launch.
#include <algorithm>

#include "collectives/device/cuda/checks.h"
#include "collectives/device/cuda/cuda_device.h"
#include "collectives/device/cuda/error_text.h"
#include "collectives/device/cuda/kernels/limits.h"

namespace stepgate::device {

using cuda::ContextScope;
using cuda::fail;
using cuda::Kernel;
using cuda::ScanKind;
using cuda::ScanLaunch;
using cuda::Scratch;

namespace kernels = ::stepgate::cuda;

namespace {

// In the order of ElementType.
constexpr Kernel kScans[] = {Kernel::stepgate_scan_fp32,     Kernel::stepgate_scan_fp16,
                             Kernel::stepgate_scan_bf16,     Kernel::stepgate_scan_fp64,
                             Kernel::stepgate_scan_fp8_e4m3, Kernel::stepgate_scan_fp8_e5m2};
constexpr Kernel kUnscales[] = {Kernel::stepgate_unscale_fp32, Kernel::stepgate_unscale_fp16,
                                Kernel::stepgate_unscale_bf16, Kernel::stepgate_unscale_fp64};

Kernel kernel_of(const ScanKind& kind) {
  return (kind.in_place ? kUnscales : kScans)[static_cast<std::uint32_t>(kind.stored)];
}

// Where a scan's scratch is looked up: its first output.
const void* key_of(const Scan& job) {
  if (job.total != nullptr) return job.total;
  return job.per_segment != nullptr ? static_cast<const void*>(job.per_segment) : job.first_bad;
}

ScanKind kind_of(const Scan& job) {
  return {job.stored, job.compute, job.unscale_by != nullptr};
}

constexpr std::uint32_t kKinds = 2 * kElementTypeCount * kElementTypeCount;
static_assert(kKinds <= 128);

std::uint32_t index_of(const ScanKind& k) {
  return (static_cast<std::uint32_t>(k.stored) * kElementTypeCount + static_cast<std::uint32_t>(k.compute)) *
             2 +
         k.in_place;
}

ScanKind kind_at(std::uint32_t index) {
  return {static_cast<ElementType>(index / 2 / kElementTypeCount),
          static_cast<ElementType>(index / 2 % kElementTypeCount), index % 2 != 0};
}

}  // namespace

void CudaDevice::fill_limits() noexcept {
  for (std::uint32_t stored = 0; stored < kElementTypeCount; ++stored) {
    for (std::uint32_t compute = 0; compute < kElementTypeCount; ++compute) {
      limits_[stored][compute] =
          kernels::scan_limits(static_cast<ElementType>(stored), static_cast<ElementType>(compute));
    }
  }
}

// Warps and blocks of a scan's kernel.
cuda::PassShape CudaDevice::shape_of(const ScanKind& kind) const noexcept {
  const auto bytes = static_cast<std::uint32_t>(element_size(kind.stored));
  const auto tuning = kind.in_place ? kernels::unscale_tuning : kernels::scan_tuning;
  const kernels::ScanTuning t = tuning(context_->architecture(), bytes);
  return {t.warps_per_block, t.blocks_per_sm};
}

std::uint32_t CudaDevice::group_log2_for(const ScanKind& kind, std::uint64_t units) const noexcept {
  const cuda::PassShape p = shape_of(kind);
  const auto warps = std::uint64_t{context_->multiprocessors()} * p.blocks_per_sm * p.warps_per_block;
  return kernels::group_log2_for(units, warps);
}

Code CudaDevice::prepare(const Scan& job) noexcept {
  if (const Code code = cuda::check_scan(job); code != Code::kOk) return code;
  const std::uint32_t k = group_log2_for(kind_of(job), cuda::units_in(job.segments));
  return scratch_->prepare(key_of(job), cuda::scratch_need(job.segments, k));
}

Code CudaDevice::choose_scratch(Stream s, const Scan& job, Scratch* scratch,
                                std::uint32_t* group_log2) noexcept {
  bool prepared = false;
  if (!scratch_->find(key_of(job), s, scratch, &prepared)) {
    return fail(Code::kUnsupported,
                "scan: %zu streams carry scans that were not prepared, and this is one more; prepare() them",
                cuda::kPooledStreams);
  }
  if (cuda::fitting_group_log2(job.segments, *group_log2, scratch->room, group_log2)) return Code::kOk;
  return fail(Code::kUnsupported, "scan: %zu segments need more scratch than %s; prepare() this scan",
              job.segments.size(), prepared ? "was prepared for its total" : "an unprepared scan has");
}

Code CudaDevice::scan(Stream s, const Scan& job) noexcept {
  if (const Code code = cuda::check_scan(job); code != Code::kOk) return code;
  const ContextScope scope(*context_, "scan");
  return scope ? scan_alone(s, job) : scope.code();
}

Code CudaDevice::scan_alone(Stream s, const Scan& job) noexcept {
  const ScanKind kind = kind_of(job);
  std::uint32_t k = group_log2_for(kind, cuda::units_in(job.segments));
  Scratch scratch;
  if (const Code code = choose_scratch(s, job, &scratch, &k); code != Code::kOk) return code;
  ScanLaunch launch(k);
  const Code code = add_scan(s, job, scratch, &launch);
  return code == Code::kOk ? flush(s, kind, job.unscale_by, &launch) : code;
}

// What does not fit any more goes into the next launch.
Code CudaDevice::add_scan(Stream s, const Scan& job, const Scratch& scratch, ScanLaunch* launch) noexcept {
  std::uint32_t next = 0;
  while (!launch->take(job, scratch, &next)) {
    const Code code = flush(s, kind_of(job), job.unscale_by, launch);
    if (code != Code::kOk) return code;
  }
  return Code::kOk;
}

Code CudaDevice::flush(Stream s, const ScanKind& kind, const double* unscale_by,
                       ScanLaunch* launch) noexcept {
  if (launch->empty()) return Code::kOk;
  kernels::ScanArguments a;
  a.limits = limits_[static_cast<std::uint32_t>(kind.stored)][static_cast<std::uint32_t>(kind.compute)];
  a.unscale_by = unscale_by;
  a.reserved = 0;
  launch->write(&a);
  launch->clear();
  const cuda::PassShape p = shape_of(kind);
  return kernels_->launch("scan", kernel_of(kind),
                          blocks_for(kernels::ceil_divide(a.group_count, p.warps_per_block), p), s, a);
}

Code CudaDevice::scan_all(Stream s, std::span<const Scan> jobs) noexcept {
  if (jobs.empty()) return Code::kOk;
  std::uint64_t present[2] = {};
  for (const Scan& job : jobs) {
    if (const Code code = cuda::check_scan(job); code != Code::kOk) return code;
    const std::uint32_t i = index_of(kind_of(job));
    present[i / 64] |= std::uint64_t{1} << (i % 64);
  }
  const ContextScope scope(*context_, "scan");
  if (!scope) return scope.code();
  for (std::uint32_t i = 0; i < kKinds; ++i) {
    if ((present[i / 64] >> (i % 64) & 1u) == 0) continue;
    if (const Code code = scan_kind(s, kind_at(i), jobs); code != Code::kOk) return code;
  }
  return Code::kOk;
}

// The jobs of one kind. Those that were not prepared have no scratch of their own and go alone.
Code CudaDevice::scan_kind(Stream s, const ScanKind& kind, std::span<const Scan> jobs) noexcept {
  std::uint64_t units = 0;
  for (const Scan& job : jobs) units += kind_of(job) == kind ? cuda::units_in(job.segments) : 0;
  std::uint32_t k = group_log2_for(kind, units);
  Scratch scratch;
  const auto takes_part = [&](const Scan& job) {
    return kind_of(job) == kind && scratch_->find_prepared(key_of(job), &scratch);
  };
  for (const Scan& job : jobs) {
    if (!takes_part(job)) continue;
    if (const Code code = choose_scratch(s, job, &scratch, &k); code != Code::kOk) return code;
  }
  ScanLaunch launch(k);
  const double* unscale_by = nullptr;  // of the launch
  for (const Scan& job : jobs) {
    if (kind_of(job) != kind) continue;
    Code code = Code::kOk;
    if (!takes_part(job)) {
      code = scan_alone(s, job);
    } else {
      if (job.unscale_by != unscale_by) code = flush(s, kind, unscale_by, &launch);
      unscale_by = job.unscale_by;
      if (code == Code::kOk) code = add_scan(s, job, scratch, &launch);
    }
    if (code != Code::kOk) return code;
  }
  return flush(s, kind, unscale_by, &launch);
}

}  // namespace stepgate::device

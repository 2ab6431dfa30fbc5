#include "collectives/device/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>

#include "collectives/device/cuda/checks.h"
#include "collectives/device/cuda/error_text.h"
#include "collectives/device/cuda/kernels/limits.h"
#include "collectives/device/cuda/kernels/tuning.h"

namespace stepgate::device {

using cuda::ContextScope;
using cuda::fail;
using cuda::Kernel;
using cuda::RelaxedCapture;
using cuda::Scratch;
using cuda::Shape;

namespace {

namespace kernels = ::stepgate::cuda;

constexpr std::uint64_t kApplyPerThread = 8;

cuda::DevicePtr address(const void* memory) {
  return static_cast<cuda::DevicePtr>(reinterpret_cast<std::uintptr_t>(memory));
}

// Where a scan's scratch is looked up: its first output.
const void* key_of(const Scan& job) {
  if (job.total != nullptr) return job.total;
  return job.per_segment != nullptr ? static_cast<const void*>(job.per_segment) : job.first_bad;
}

// In the order of ElementType.
constexpr Kernel kScans[] = {Kernel::stepgate_scan_fp32,     Kernel::stepgate_scan_fp16,
                             Kernel::stepgate_scan_bf16,     Kernel::stepgate_scan_fp64,
                             Kernel::stepgate_scan_fp8_e4m3, Kernel::stepgate_scan_fp8_e5m2};
constexpr Kernel kApplies[] = {Kernel::stepgate_apply_fp32, Kernel::stepgate_apply_fp16,
                               Kernel::stepgate_apply_bf16, Kernel::stepgate_apply_fp64};

Kernel apply_kernel(const Apply& job) {
  if (job.out == nullptr) return kApplies[static_cast<std::uint32_t>(job.stored)];
  return job.stored == ElementType::kFp16 ? Kernel::stepgate_widen_fp16 : Kernel::stepgate_widen_bf16;
}

Kernel absorbed_kernel(ElementType stored) {
  switch (element_size(stored)) {
    case 2: return Kernel::stepgate_absorbed_16;
    case 8: return Kernel::stepgate_absorbed_64;
    default: return Kernel::stepgate_absorbed_32;
  }
}

// What all launches of one scan share.
kernels::ScanArguments scan_arguments(const Scan& job, const Scratch& scratch) {
  kernels::ScanArguments a{};
  a.groups = scratch.groups;
  a.bundles = scratch.bundles;
  a.tickets = scratch.tickets;
  a.segments = job.per_segment != nullptr ? job.per_segment : scratch.segments;
  a.total = job.total;
  a.first_bad = job.first_bad;
  a.epoch = job.epoch;
  a.stamp = job.stamp;
  a.unless_stamped = job.unless_stamped;
  a.limits = kernels::scan_limits(job.stored, job.compute);
  return a;
}

// As many blocks as there is work for, at most as many as the device holds.
Shape shape_for(std::uint64_t work_blocks, std::uint32_t multiprocessors, std::uint32_t per_sm,
                std::uint32_t warps) {
  const std::uint64_t most = std::uint64_t{multiprocessors} * per_sm;
  const std::uint64_t blocks = std::clamp<std::uint64_t>(work_blocks, 1, most);
  return {static_cast<std::uint32_t>(blocks), warps * kernels::kWarpLanes};
}

}  // namespace

std::unique_ptr<CudaDevice> CudaDevice::create(const CudaDeviceOptions& options, std::string* error) {
  std::unique_ptr<CudaDevice> device(new CudaDevice);
  return device->build(options, error) ? std::move(device) : nullptr;
}

bool CudaDevice::build(const CudaDeviceOptions& options, std::string* error) {
  if (options.driver == nullptr || options.image == nullptr) {
    *error = options.driver == nullptr ? "CudaDevice: no driver was opened" : cuda::kNoKernels;
    return false;
  }
  context_ = cuda::PrimaryContext::retain(options.driver, options.ordinal, error);
  if (context_ == nullptr) return false;
  const ContextScope scope(*context_, "create");
  const RelaxedCapture relaxed(context_->driver());
  if (scope) kernels_ = cuda::KernelSet::load(*context_, options.image, error);
  if (kernels_ != nullptr) memory_ = cuda::DeviceMemory::create(*context_, error);
  if (memory_ != nullptr) scratch_ = std::make_unique<cuda::ScratchTable>(*memory_);
  if (scratch_ != nullptr && scratch_->fill_pool()) return true;
  if (!scope || scratch_ != nullptr) *error = cuda::last_text();
  return false;
}

CudaDevice::~CudaDevice() {
  if (context_ == nullptr) return;
  const ContextScope scope(*context_, "destroy");
  const RelaxedCapture relaxed(context_->driver());
  scratch_.reset();
  memory_.reset();
  kernels_.reset();
}

void* CudaDevice::allocate(std::size_t bytes, Memory kind) noexcept {
  return memory_->allocate(bytes, kind);
}

void CudaDevice::release(void* memory, Memory kind) noexcept {
  const std::size_t bytes = memory_->release(memory, kind);
  if (bytes != 0) scratch_->forget(memory, bytes);
}

Code CudaDevice::copy_in(Stream s, void* device, const void* from, std::size_t bytes) noexcept {
  if (const Code code = cuda::check_copy("copy_in", device, from, bytes); code != Code::kOk) return code;
  if (bytes == 0) return Code::kOk;
  const ContextScope scope(*context_, "copy_in");
  if (!scope) return scope.code();
  if (bytes <= kSmallCopyBytes) {
    return poke(s, static_cast<unsigned char*>(device), static_cast<const unsigned char*>(from), bytes);
  }
  return on_stream("copy_in", context_->driver().api().MemcpyHtoDAsync, address(device), from, bytes,
                   static_cast<cuda::StreamHandle>(s));
}

// The bytes travel in the launches: no staging to keep, and a graph replays what it captured.
Code CudaDevice::poke(Stream s, unsigned char* to, const unsigned char* from, std::size_t bytes) noexcept {
  kernels::PokeArguments a{};
  for (std::size_t at = 0; at < bytes; at += kernels::kPokeBytes) {
    a.to = to + at;
    a.bytes = static_cast<std::uint32_t>(std::min<std::size_t>(kernels::kPokeBytes, bytes - at));
    std::memcpy(a.data, from + at, a.bytes);
    const Code code = kernels_->launch("copy_in", Kernel::stepgate_poke, {1, kernels::kStepThreads}, s, a);
    if (code != Code::kOk) return code;
  }
  return Code::kOk;
}

Code CudaDevice::copy_out(Stream s, void* to, const void* device, std::size_t bytes) noexcept {
  if (const Code code = cuda::check_copy("copy_out", to, device, bytes); code != Code::kOk) return code;
  if (bytes == 0) return Code::kOk;
  const ContextScope scope(*context_, "copy_out");
  if (!scope) return scope.code();
  return on_stream("copy_out", context_->driver().api().MemcpyDtoHAsync, to, address(device), bytes,
                   static_cast<cuda::StreamHandle>(s));
}

kernels::ScanTuning CudaDevice::scan_tuning(ElementType stored) const noexcept {
  return kernels::scan_tuning(context_->architecture(), static_cast<std::uint32_t>(element_size(stored)));
}

std::uint64_t CudaDevice::resident_warps(ElementType stored) const noexcept {
  const kernels::ScanTuning t = scan_tuning(stored);
  return std::uint64_t{context_->multiprocessors()} * t.blocks_per_sm * t.warps_per_block;
}

Code CudaDevice::prepare(const Scan& job) noexcept {
  if (const Code code = cuda::check_scan(job); code != Code::kOk) return code;
  const std::uint32_t k = cuda::preferred_group_log2(job.segments, resident_warps(job.stored));
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
  const std::uint32_t preferred = cuda::preferred_group_log2(job.segments, resident_warps(job.stored));
  if (cuda::fitting_group_log2(job.segments, preferred, scratch->room, group_log2)) return Code::kOk;
  return fail(Code::kUnsupported, "scan: %zu segments need more scratch than %s; prepare() this scan",
              job.segments.size(), prepared ? "was prepared for its total" : "an unprepared scan has");
}

Code CudaDevice::scan(Stream s, const Scan& job) noexcept {
  if (const Code code = cuda::check_scan(job); code != Code::kOk) return code;
  Scratch scratch;
  std::uint32_t group_log2 = 0;
  if (const Code code = choose_scratch(s, job, &scratch, &group_log2); code != Code::kOk) return code;
  const ContextScope scope(*context_, "scan");
  return scope ? launch_scan(s, job, scratch, group_log2) : scope.code();
}

Code CudaDevice::launch_scan(Stream s, const Scan& job, const Scratch& scratch,
                             std::uint32_t group_log2) noexcept {
  const kernels::ScanTuning tuning = scan_tuning(job.stored);
  const Kernel kernel = kScans[static_cast<std::uint32_t>(job.stored)];
  kernels::ScanArguments a = scan_arguments(job, scratch);
  std::uint32_t next = 0;
  do {
    next = cuda::fill_portion(job.segments, next, group_log2, &a);
    const Shape shape = shape_for(kernels::ceil_divide(a.group_count, tuning.warps_per_block),
                                  context_->multiprocessors(), tuning.blocks_per_sm, tuning.warps_per_block);
    if (const Code code = kernels_->launch("scan", kernel, shape, s, a); code != Code::kOk) return code;
  } while (next < job.segments.size());
  return Code::kOk;
}

Shape CudaDevice::pass_over(std::uint64_t elements) const noexcept {
  const kernels::ApplyTuning tuning = kernels::apply_tuning(context_->architecture());
  const std::uint64_t per_block = tuning.warps_per_block * kernels::kWarpLanes * kApplyPerThread;
  return shape_for(kernels::ceil_divide(elements, per_block), context_->multiprocessors(),
                   tuning.blocks_per_sm, tuning.warps_per_block);
}

Code CudaDevice::apply(Stream s, const Apply& job) noexcept {
  if (const Code code = cuda::check_apply(job); code != Code::kOk) return code;
  if (job.count == 0) return Code::kOk;
  const ContextScope scope(*context_, "apply");
  if (!scope) return scope.code();
  const kernels::ApplyArguments a{job.data, job.out, job.count, job.outputs};
  return kernels_->launch("apply", apply_kernel(job), pass_over(job.count), s, a);
}

Code CudaDevice::observe_update(Stream s, const ObserveUpdate& job) noexcept {
  if (const Code code = cuda::check_update(job); code != Code::kOk) return code;
  const ContextScope scope(*context_, "observe_update");
  if (!scope) return scope.code();
  const Code cleared =
      on_stream("observe_update", context_->driver().api().MemsetD8Async, address(job.total),
                static_cast<unsigned char>(0), sizeof *job.total, static_cast<cuda::StreamHandle>(s));
  if (cleared != Code::kOk) return cleared;
  static_assert(sizeof(UpdateStats) == 3 * sizeof(unsigned long long), "the kernel counts in words");
  const kernels::UpdateArguments a{job.before, job.after, job.update, job.count,
                                   reinterpret_cast<unsigned long long*>(job.total)};
  return kernels_->launch("observe_update", absorbed_kernel(job.stored), pass_over(job.count), s, a);
}

Code CudaDevice::synchronize(Stream s) noexcept {
  const ContextScope scope(*context_, "synchronize");
  if (!scope) return scope.code();
  return on_stream("synchronize", context_->driver().api().StreamSynchronize,
                   static_cast<cuda::StreamHandle>(s));
}

const char* CudaDevice::last_error() const noexcept {
  return cuda::last_text();
}

}  // namespace stepgate::device

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

// What all launches of one scan share.
kernels::ScanArguments scan_arguments(const Scan& job, const Scratch& scratch) {
  kernels::ScanArguments a{};
  a.groups = scratch.groups;
  a.bundles = scratch.bundles;
  a.tickets = scratch.tickets;
  a.segments = job.per_segment != nullptr ? job.per_segment : scratch.segments;
  a.total = job.total;
  a.first_bad = job.first_bad;
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
    *error = options.driver == nullptr
                 ? "CudaDevice: no driver was opened"
                 : "CudaDevice: this build carries no CUDA kernels (it was configured without nvcc)";
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

template <class... P, class... A>
Code CudaDevice::on_stream(const char* operation, const cuda::Function<cuda::Result(P...)>& function,
                           A... arguments) noexcept {
  const cuda::Result r = context_->driver().call(function, arguments...);
  if (r == cuda::Result::kSuccess) return Code::kOk;
  return cuda::driver_failed(context_->driver(), operation, function.name, "", r);
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

Code CudaDevice::apply(Stream s, const Apply& job) noexcept {
  if (const Code code = cuda::check_apply(job); code != Code::kOk) return code;
  if (job.count == 0) return Code::kOk;
  const ContextScope scope(*context_, "apply");
  if (!scope) return scope.code();
  const kernels::ApplyTuning tuning = kernels::apply_tuning(context_->architecture());
  const std::uint64_t per_block = tuning.warps_per_block * kernels::kWarpLanes * kApplyPerThread;
  const Shape shape = shape_for(kernels::ceil_divide(job.count, per_block), context_->multiprocessors(),
                                tuning.blocks_per_sm, tuning.warps_per_block);
  const kernels::ApplyArguments a{job.data, job.out, job.count, job.outputs};
  return kernels_->launch("apply", apply_kernel(job), shape, s, a);
}

template <class Arguments>
Code CudaDevice::step_kernel(const char* operation, Kernel kernel, Stream s, const Arguments& a) noexcept {
  const ContextScope scope(*context_, operation);
  if (!scope) return scope.code();
  return kernels_->launch(operation, kernel, {1, kernels::kStepThreads}, s, a);
}

Code CudaDevice::block_kernel(const char* operation, Kernel kernel, Stream s, GateBlock* g,
                              std::uint32_t set) noexcept {
  if (const Code code = cuda::check_block(operation, g, set); code != Code::kOk) return code;
  return step_kernel(operation, kernel, s, kernels::BlockArguments{g, set, 0});
}

Code CudaDevice::begin_step(Stream s, GateBlock* g) noexcept {
  return block_kernel("begin_step", Kernel::stepgate_begin_step, s, g, 0);
}

Code CudaDevice::update_scale(Stream s, GateBlock* g) noexcept {
  return block_kernel("update_scale", Kernel::stepgate_update_scale, s, g, 0);
}

Code CudaDevice::veto(Stream s, GateBlock* g) noexcept {
  return block_kernel("veto", Kernel::stepgate_veto, s, g, 0);
}

Code CudaDevice::mark_applied(Stream s, GateBlock* g, std::uint32_t set) noexcept {
  return block_kernel("mark_applied", Kernel::stepgate_mark_applied, s, g, set);
}

Code CudaDevice::summarize(Stream s, GateBlock* g, std::uint32_t set, const RangeSlot* slots,
                           std::uint32_t slot_count, double* fields) noexcept {
  if (const Code code = cuda::check_block("summarize", g, set); code != Code::kOk) return code;
  if (const Code code = cuda::check_slots("summarize", slots, slot_count); code != Code::kOk) return code;
  if (const Code code = cuda::check_fields("summarize", fields); code != Code::kOk) return code;
  return step_kernel("summarize", Kernel::stepgate_summarize, s,
                     kernels::SummarizeArguments{g, slots, fields, set, slot_count});
}

Code CudaDevice::decide(Stream s, GateBlock* g, std::uint32_t set, const double* fields) noexcept {
  if (const Code code = cuda::check_block("decide", g, set); code != Code::kOk) return code;
  if (const Code code = cuda::check_fields("decide", fields); code != Code::kOk) return code;
  return step_kernel("decide", Kernel::stepgate_decide, s, kernels::DecideArguments{g, fields, set, 0});
}

Code CudaDevice::publish(Stream s, const GateBlock* g, std::uint32_t set, const RangeSlot* slots,
                         std::uint32_t slot_count, RingView ring, const RecordExtras& extras) noexcept {
  if (const Code code = cuda::check_block("publish", g, set); code != Code::kOk) return code;
  if (const Code code = cuda::check_slots("publish", slots, slot_count); code != Code::kOk) return code;
  if (const Code code = cuda::check_ring(ring); code != Code::kOk) return code;
  const kernels::PublishArguments a{g,
                                    slots,
                                    ring.records,
                                    ring.head,
                                    set,
                                    slot_count,
                                    extras.timestamp_seconds,
                                    extras.scan_seconds,
                                    extras.agreement_seconds};
  return step_kernel("publish", Kernel::stepgate_publish, s, a);
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

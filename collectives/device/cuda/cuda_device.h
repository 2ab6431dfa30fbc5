// CudaDevice: gradients in a CUDA device's memory, over the driver that is opened at run time.
//
//   std::string error;
//   auto driver = cuda::Driver::open({}, &error);
//   auto device = CudaDevice::create({driver, ordinal, image}, &error);   // nullptr: error says why
//   device->scan(stream, {.segments = parameters, .stored = ElementType::kBf16, .total = stats});
//
// A stream is a CUstream of the device's primary context, or nullptr for its legacy default one.
// Every operation is one launch or copy (a scan: one per 192 segments; a copy_in: one per 3.5 KiB;
// observe_update: one of each; record and wait: one call each). It allocates nothing, waits for nothing and
// asks no event. The caller's current context is restored.
// kDriver after the first of several launches: what was enqueued so far only touched the results that
// the operation was to write.
//
// Threads: as device.h says; operations on different streams from different threads at once.
// Order: scans into one total, and unprepared scans on one stream, must be ordered with each other (they
// share scratch). At most cuda::kPooledStreams streams may carry unprepared scans.
// Lock: the look-up of scratch takes one for the time of a search.
// Ownership: memory that was allocated here and not released goes with the device. A device that is
// destroyed while its work runs waits for it.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "collectives/device/cuda/context.h"
#include "collectives/device/cuda/error_text.h"
#include "collectives/device/cuda/kernels/tuning.h"
#include "collectives/device/cuda/launch.h"
#include "collectives/device/cuda/memory.h"
#include "collectives/device/cuda/scan_plan.h"
#include "collectives/device/cuda/scratch.h"
#include "collectives/device/device.h"

namespace stepgate::device {

namespace cuda {

// Scans that one kernel can do in one launch.
struct ScanKind {
  ElementType stored;
  ElementType compute;
  bool in_place;
  friend bool operator==(const ScanKind&, const ScanKind&) = default;
};

// How a pass over elements fills a multiprocessor.
struct PassShape {
  std::uint32_t warps_per_block;
  std::uint32_t blocks_per_sm;
};

}  // namespace cuda

struct CudaDeviceOptions {
  std::shared_ptr<cuda::Driver> driver;
  int ordinal = 0;
  const void* image = nullptr;  // stepgate_fatbin (kernels/fatbin.h)
};

class CudaDevice final : public Device {
 public:
  static std::unique_ptr<CudaDevice> create(const CudaDeviceOptions& options, std::string* error);
  ~CudaDevice() override;

  const char* name() const noexcept override { return "cuda"; }
  int ordinal() const noexcept { return context_->ordinal(); }
  // The primary context of its device, in which everything happens.
  cuda::ContextHandle context() const noexcept { return context_->handle(); }

  void* allocate(std::size_t bytes, Memory kind) noexcept override;
  void release(void* memory, Memory kind) noexcept override;
  Code copy_in(Stream s, void* device, const void* from, std::size_t bytes) noexcept override;
  Code copy_out(Stream s, void* to, const void* device, std::size_t bytes) noexcept override;

  Code prepare(const Scan& job) noexcept override;
  Code scan(Stream s, const Scan& job) noexcept override;
  // One launch for some forty prepared ranges, or 192 segments, of equal types. Nothing orders the jobs of
  // one call with each other. Jobs that were not prepared, or share a total, are launches of their own.
  Code scan_all(Stream s, std::span<const Scan> jobs) noexcept override;
  Code apply(Stream s, const Apply& job) noexcept override;
  // One launch for 144 buffers of equal types that wait for the same decision.
  Code apply_all(Stream s, std::span<const Apply> jobs) noexcept override;

  Code observe_update(Stream s, const ObserveUpdate& job) noexcept override;

  Code begin_step(Stream s, const BeginStep& job) noexcept override;
  Code summarize(Stream s, const Summarize& job) noexcept override;
  Code decide(Stream s, GateBlock* g, std::uint32_t set, const double* fields) noexcept override;
  Code finish_step(Stream s, const FinishStep& job) noexcept override;
  Code veto(Stream s, GateBlock* g) noexcept override;
  Code mark_applied(Stream s, GateBlock* g, std::uint32_t set) noexcept override;

  Code create_stream(Stream* s) noexcept override;
  void release_stream(Stream s) noexcept override;
  Mark create_mark() noexcept override;
  void release_mark(Mark mark) noexcept override;
  Code record(Stream s, Mark mark) noexcept override;
  Code wait(Stream s, Mark mark) noexcept override;
  CaptureState capture_state(Stream s) noexcept override;
  bool reaches(const void* p) noexcept override;

  Code synchronize(Stream s) noexcept override;

  const char* last_error() const noexcept override;

 private:
  CudaDevice() = default;
  bool build(const CudaDeviceOptions& options, std::string* error);
  Code poke(Stream s, unsigned char* to, const unsigned char* from, std::size_t bytes) noexcept;
  cuda::Shape blocks_for(std::uint64_t work_blocks, const cuda::PassShape& p) const noexcept;

  // Scans; *group_log2 holds what is wanted, and then what fits.
  cuda::PassShape shape_of(const cuda::ScanKind& kind) const noexcept;
  std::uint32_t group_log2_for(const cuda::ScanKind& kind, std::uint64_t units) const noexcept;
  Code choose_scratch(Stream s, const Scan& job, cuda::Scratch* scratch, std::uint32_t* group_log2) noexcept;
  Code scan_alone(Stream s, const Scan& job) noexcept;
  Code scan_kind(Stream s, const cuda::ScanKind& kind, std::span<const Scan> jobs) noexcept;
  Code add_scan(Stream s, const Scan& job, const cuda::Scratch& scratch, cuda::ScanLaunch* launch) noexcept;
  Code flush(Stream s, const cuda::ScanKind& kind, const double* unscale_by,
             cuda::ScanLaunch* launch) noexcept;

  cuda::PassShape apply_shape() const noexcept;
  Code apply_kind(Stream s, std::uint32_t index, std::span<const Apply> jobs) noexcept;

  // One driver function, the context being current.
  template <class... P, class... A>
  Code call_driver(const char* operation, const cuda::Function<cuda::Result(P...)>& function,
                   A... arguments) noexcept {
    const cuda::Result r = context_->driver().call(function, arguments...);
    if (r == cuda::Result::kSuccess) return Code::kOk;
    return cuda::driver_failed(context_->driver(), operation, function.name, "", r);
  }
  template <class Arguments>
  Code step_kernel(const char* operation, cuda::Kernel kernel, Stream s, const Arguments& a) noexcept;
  Code block_kernel(const char* operation, cuda::Kernel kernel, Stream s, GateBlock* g,
                    std::uint32_t set) noexcept;

  void fill_limits() noexcept;

  // By stored and by compute type: searching for them takes longer than a launch.
  ::stepgate::cuda::ScanLimits limits_[kElementTypeCount][kElementTypeCount];
  std::unique_ptr<cuda::PrimaryContext> context_;
  std::unique_ptr<cuda::KernelSet> kernels_;
  std::unique_ptr<cuda::DeviceMemory> memory_;
  std::unique_ptr<cuda::ScratchTable> scratch_;
};

}  // namespace stepgate::device

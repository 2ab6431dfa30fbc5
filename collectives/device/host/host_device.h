// HostDevice: gradients in host memory. Every operation is done when it returns; the Stream is
// ignored, and synchronize() has nothing to wait for.
//
//   HostDevice device;
//   device.scan(nullptr, {.segments = parameters, .stored = ElementType::kBf16, .total = stats});
//
// Thread: any, several at once; a HostDevice has no state besides its table of inner loops. The
// memory of one operation must not be written by another thread meanwhile.
// Order, ownership: as device.h says. Lock: none.
#pragma once

#include "collectives/device/device.h"

namespace stepgate::device {

namespace host {
struct Kernels;
}

class HostDevice final : public Device {
 public:
  // Takes the fastest inner loops that this machine has.
  HostDevice() noexcept;
  // For tests and benchmarks: one given table (host/kernels.h), which must outlive the device.
  explicit HostDevice(const host::Kernels& kernels) noexcept;

  const char* name() const noexcept override { return "host"; }

  bool immediate() const noexcept override { return true; }
  void* allocate(std::size_t bytes, Memory kind) noexcept override;
  void release(void* memory, Memory kind) noexcept override;
  Code copy_in(Stream s, void* device, const void* from, std::size_t bytes) noexcept override;
  Code copy_out(Stream s, void* to, const void* device, std::size_t bytes) noexcept override;

  // Values outside ElementType, and fp8 in place: kUnsupported, nothing is written. At least one of the three
  // outputs must be there. An empty segment counts as a sum of zero in the order over segments.
  Code scan(Stream s, const Scan& job) noexcept override;
  // Out of place only from fp16 and bf16 to fp32; any other pair is kUnsupported. The two buffers
  // must not overlap.
  Code apply(Stream s, const Apply& job) noexcept override;

  Code observe_update(Stream s, const ObserveUpdate& job) noexcept override;

  Code begin_step(Stream s, const BeginStep& job) noexcept override;
  // summarize and decide also keep a copy of `fields` in the set's block: publish reads the sums there.
  Code summarize(Stream s, const Summarize& job) noexcept override;
  Code decide(Stream s, GateBlock* g, std::uint32_t set, const double* fields) noexcept override;
  Code finish_step(Stream s, const FinishStep& job) noexcept override;
  Code veto(Stream s, GateBlock* g) noexcept override;
  Code mark_applied(Stream s, GateBlock* g, std::uint32_t set) noexcept override;

  // Everything has run when it returns, so order needs no marks.
  Code create_stream(Stream* s) noexcept override {
    *s = nullptr;
    return Code::kOk;
  }
  void release_stream(Stream) noexcept override {}
  Mark create_mark() noexcept override { return this; }
  void release_mark(Mark) noexcept override {}
  Code record(Stream, Mark) noexcept override { return Code::kOk; }
  Code wait(Stream, Mark) noexcept override { return Code::kOk; }
  CaptureState capture_state(Stream) noexcept override { return CaptureState::kNone; }
  // It knows of no driver; whoever does asks that one first.
  bool reaches(const void*) noexcept override { return true; }

  Code synchronize(Stream s) noexcept override;

  const char* last_error() const noexcept override;

 private:
  const host::Kernels* kernels_;
};

}  // namespace stepgate::device

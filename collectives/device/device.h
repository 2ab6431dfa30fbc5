// Device: where gradients live and where a step's arithmetic runs. Stream-ordered: every operation
// but the control path is enqueued on a Stream and may finish later; HostDevice finishes it before
// it returns. Nothing on the hot path allocates, synchronises or throws.
//
// Threads: control path (allocate, release) from any thread, not during a step; operations of one
// stream from the thread that owns that stream's order. A Device has no lock of its own and no
// global state; several live side by side in one process.
// Ownership: the caller owns every buffer it passes until the stream has passed the operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "collectives/core/element_type.h"
#include "collectives/core/gate_block.h"
#include "collectives/core/grad_stats.h"
#include "collectives/core/records.h"

namespace stepgate::device {

// A CUstream / cudaStream_t; nullptr is a valid stream (the legacy default one).
using Stream = void*;

// Codes of the hot path; text through last_error().
enum class Code : int {
  kOk = 0,
  kInvalid = 1,  // an argument; nothing was enqueued
  kOutOfMemory = 2,
  kDriver = 3,       // the driver refused; nothing of this operation was enqueued
  kUnsupported = 4,  // this device cannot do it (yet)
};

enum class Memory {
  kDevice,  // where kernels run; the host may not touch it
  kMapped,  // host memory that the device writes: rings, tables
};

// A copy_in up to this size may come from anywhere, a stack included.
inline constexpr std::size_t kSmallCopyBytes = 14336;

// One contiguous piece of a gradient: count elements from data on. data needs the element's own
// alignment only (that is all NCCL promises).
struct Segment {
  const void* data = nullptr;
  std::uint64_t count = 0;
};

// A read-only pass over the segments of one range.
struct Scan {
  std::span<const Segment> segments;  // host memory, copied before the call returns
  ElementType stored = ElementType::kFp32;
  ElementType compute = ElementType::kFp16;  // thresholds of subnormals and overranges
  GradStats* total = nullptr;                // device memory: all segments together
  GradStats* per_segment = nullptr;          // device memory, segments.size() entries, or nullptr
  std::int32_t* first_bad = nullptr;  // device memory: first segment with inf or NaN, else -1; or nullptr
};

// In place: x = stored(fp32(x) * multiplier), where decision.skip is 0; nothing otherwise.
// With `out` set the products go there as `out_type` (fp16 or bf16 to fp32) and data is not written.
struct Apply {
  void* data = nullptr;
  std::uint64_t count = 0;
  ElementType stored = ElementType::kFp32;
  const Outputs* outputs = nullptr;  // device memory: found_inf and multiplier are read there
  void* out = nullptr;
  ElementType out_type = ElementType::kFp32;
};

// Where publish() puts a step. Mapped memory.
struct RingView {
  StepRecord* records = nullptr;  // kRingRecords entries
  std::uint64_t* head = nullptr;  // records written so far; stored with release after the record
};

// What the host adds to a record that the block does not know.
struct RecordExtras {
  double timestamp_seconds = 0;
  double scan_seconds = 0;
  double agreement_seconds = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const char* name() const noexcept = 0;  // "host", "cuda"

  // Zeroed memory, 256-byte aligned; nullptr when there is none (last_error says why).
  virtual void* allocate(std::size_t bytes, Memory kind) noexcept = 0;
  virtual void release(void* memory, Memory kind) noexcept = 0;

  // Host <-> device on the stream. `from`/`to` on the host side must outlive the operation; but a
  // copy_in of at most kSmallCopyBytes has read `from` before it returns. copy_out is asynchronous into
  // kMapped memory only; into any other the host may wait.
  virtual Code copy_in(Stream s, void* device, const void* from, std::size_t bytes) noexcept = 0;
  virtual Code copy_out(Stream s, void* to, const void* device, std::size_t bytes) noexcept = 0;

  // Control path: reserves what scans like `job` (found again by its total, or else its first output)
  // need between their launches, so that scan() allocates nothing. A scan that was not prepared works
  // too, within limits of the device. Reserved until the memory of the total is released.
  virtual Code prepare(const Scan&) noexcept { return Code::kOk; }
  virtual Code scan(Stream s, const Scan& job) noexcept = 0;
  virtual Code apply(Stream s, const Apply& job) noexcept = 0;

  // The steps of gate_block.h, on the device's copy of the block.
  virtual Code begin_step(Stream s, GateBlock* g) noexcept = 0;
  virtual Code summarize(Stream s, GateBlock* g, std::uint32_t set, const RangeSlot* slots,
                         std::uint32_t slot_count, double* fields) noexcept = 0;
  virtual Code decide(Stream s, GateBlock* g, std::uint32_t set, const double* fields) noexcept = 0;
  virtual Code update_scale(Stream s, GateBlock* g) noexcept = 0;
  virtual Code veto(Stream s, GateBlock* g) noexcept = 0;
  // After apply: the set's multiplier and grad_scale become 1, for there is nothing left to unscale.
  virtual Code mark_applied(Stream s, GateBlock* g, std::uint32_t set) noexcept = 0;

  // Appends the set's step to the ring.
  virtual Code publish(Stream s, const GateBlock* g, std::uint32_t set, const RangeSlot* slots,
                       std::uint32_t slot_count, RingView ring, const RecordExtras& extras) noexcept = 0;

  // Waits for everything enqueued on s so far. Only stepgate_step_wait and tear-down call it.
  virtual Code synchronize(Stream s) noexcept = 0;

  // What went wrong last in the calling thread; never nullptr.
  virtual const char* last_error() const noexcept = 0;
};

}  // namespace stepgate::device

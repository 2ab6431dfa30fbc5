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
  // Which step the results speak of. Device memory, both or neither: *epoch (a GateBlock's step) is
  // written to *stamp once the results are there.
  const std::uint64_t* epoch = nullptr;
  std::uint64_t* stamp = nullptr;
  // Reads nothing and writes nothing where *stamp is *epoch already: a replayed graph has scanned.
  bool unless_stamped = false;
  // In place: every element becomes stored(fp32(x) * float(1 / *unscale_by)) (fp64: in fp64), and the
  // statistics speak of x as it was, but for `inf`, which also counts finite elements whose product is
  // not finite. Device memory (a GateBlock's latched scale); nullptr: read-only. Segments must not
  // overlap, for each is written.
  const double* unscale_by = nullptr;
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

// The slots after the step's end, in one of two places by turns. Mapped memory. stamps[i] is the step
// that slots[i] speak of, 0 while they are written: a reader takes it before and after its copy.
struct TableView {
  RangeSlot* slots[2] = {};
  std::uint64_t* stamps = nullptr;  // 2 entries
};

// What the host adds to a record that the block does not know.
struct RecordExtras {
  double timestamp_seconds = 0;
  double scan_seconds = 0;
  double agreement_seconds = 0;
};

struct BeginStep {
  GateBlock* g = nullptr;
  RangeSlot* slots = nullptr;  // their local statistics are cleared
  std::uint32_t slot_count = 0;
  GateBlock* mirror = nullptr;  // mapped: receives a copy of *g; or nullptr
};

struct Summarize {
  GateBlock* g = nullptr;
  std::uint32_t set = 0;
  const RangeSlot* slots = nullptr;
  std::uint32_t slot_count = 0;
  double* fields = nullptr;  // kSummaryFields of them
  bool attributing = false;  // the host knows of no reduction that no local scan covered
  bool veto = false;         // as if veto() had run
};

// The end of a step, in this order, in one launch: decides `decide_set` if there is one, moves the scale,
// appends the published sets' records to the ring, copies slots and block to where the host reads.
struct FinishStep {
  GateBlock* g = nullptr;
  std::int32_t decide_set = -1;
  const double* fields = nullptr;  // of decide_set
  std::uint32_t publish_sets = 0;  // bit per set
  const RangeSlot* slots = nullptr;
  std::uint32_t slot_count = 0;
  RingView ring;
  RecordExtras extras;
  TableView table;
  GateBlock* mirror = nullptr;  // mapped
};

// How many elements an optimizer's update did not change although it was not zero.
struct UpdateStats {
  std::uint64_t elements = 0;
  std::uint64_t updates = 0;   // with an update that is not zero
  std::uint64_t absorbed = 0;  // of these: `after` has the bits of `before`
};

struct ObserveUpdate {
  const void* before = nullptr;
  const void* after = nullptr;
  const void* update = nullptr;
  std::uint64_t count = 0;
  ElementType stored = ElementType::kFp32;  // of all three; fp8 is unsupported
  UpdateStats* total = nullptr;             // device memory
};

// Whether work on a stream is being recorded into a graph instead of run.
enum class CaptureState {
  kNone,
  kCapturing,
  kUnknown,  // the default stream while another stream captures: touching it would spoil that capture
  kFailed    // the driver did not say (last_error)
};

// A point in a stream that other streams can wait for (a CUDA event).
using Mark = void*;

class Device {
 public:
  virtual ~Device() = default;

  virtual const char* name() const noexcept = 0;  // "host", "cuda"
  // Whether an operation has run when its call returns.
  virtual bool immediate() const noexcept { return false; }

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

  // Several scans in as few passes as the device can. Each result has the bits that scan() gives. An
  // error may leave any of the totals unwritten, and unstamped.
  virtual Code scan_all(Stream s, std::span<const Scan> jobs) noexcept {
    for (const Scan& job : jobs) {
      if (const Code code = scan(s, job); code != Code::kOk) return code;
    }
    return Code::kOk;
  }
  // Several in-place multiplications in as few launches as the device can.
  virtual Code apply_all(Stream s, std::span<const Apply> jobs) noexcept {
    for (const Apply& job : jobs) {
      if (const Code code = apply(s, job); code != Code::kOk) return code;
    }
    return Code::kOk;
  }
  virtual Code observe_update(Stream s, const ObserveUpdate& job) noexcept = 0;

  // The steps of gate_block.h, on the device's copy of the block.
  virtual Code begin_step(Stream s, const BeginStep& job) noexcept = 0;
  virtual Code summarize(Stream s, const Summarize& job) noexcept = 0;
  virtual Code decide(Stream s, GateBlock* g, std::uint32_t set, const double* fields) noexcept = 0;
  virtual Code finish_step(Stream s, const FinishStep& job) noexcept = 0;
  virtual Code veto(Stream s, GateBlock* g) noexcept = 0;
  // After apply: the set's multiplier and grad_scale become 1, for there is nothing left to unscale.
  virtual Code mark_applied(Stream s, GateBlock* g, std::uint32_t set) noexcept = 0;

  // A stream of the caller's own, ordered with no other. Control path; *s is nullptr on the host.
  virtual Code create_stream(Stream* s) noexcept = 0;
  virtual void release_stream(Stream s) noexcept = 0;

  // Order between streams. Control path: create and release. nullptr: none to be had (last_error).
  virtual Mark create_mark() noexcept = 0;
  virtual void release_mark(Mark mark) noexcept = 0;
  // The mark stands for everything enqueued on s so far, in place of what it stood for.
  virtual Code record(Stream s, Mark mark) noexcept = 0;
  // What is enqueued on s from now on runs after what the mark stood for at this call.
  virtual Code wait(Stream s, Mark mark) noexcept = 0;
  virtual CaptureState capture_state(Stream s) noexcept = 0;

  // Whether kernels of this device may read what p points to.
  virtual bool reaches(const void* p) noexcept = 0;

  // Waits for everything enqueued on s so far. Only stepgate_step_wait and the control path call it; never
  // on a stream that captures, but others may meanwhile.
  virtual Code synchronize(Stream s) noexcept = 0;

  // What went wrong last in the calling thread; never nullptr.
  virtual const char* last_error() const noexcept = 0;
};

}  // namespace stepgate::device

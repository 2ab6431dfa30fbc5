// Gate: what the intercepted reductions tell it.
//
// before() runs ahead of the job's own call and may only read the send buffer; after() runs once the
// call was launched and reads the receive buffer on the same stream. Both are noexcept and fail open:
// whatever goes wrong here is counted, and the step's end scans what the hooks left uncovered.
// A reduction that is being recorded into a graph outside of a step gets its scans recorded with it.
#include <algorithm>
#include <chrono>
#include <cstddef>

#include "plugin/core/gate.h"
#include "plugin/core/nccl_types.h"

namespace stepgate::gate {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

metrics::ReductionOp op_of(OpKind k) {
  return static_cast<metrics::ReductionOp>(k);
}

}  // namespace

bool Gate::attribution_on() const {
  const Attribution a = options_.configuration.attribution;
  return a == Attribution::kOn || (a == Attribution::kAuto && enforcing_.load(std::memory_order_relaxed));
}

// Whether a reduction touches anything declared; the others are the job's own business.
bool Gate::wants(const Reduction& op, std::uint64_t bytes, std::uint64_t sends) noexcept {
  hits_.clear();
  ranges_.touching(op.recv, bytes, true, &hits_);
  if (!hits_.empty()) return true;
  ranges_.touching(op.send, bytes * sends, false, &hits_);
  return !hits_.empty();
}

// Seen while nothing was captured, or is now. Whatever a communicator needs is set up outside of captures.
bool Gate::known_locked(ncclComm_t comm, bool capturing) noexcept {
  if (std::find(known_.begin(), known_.end(), comm) != known_.end()) return true;
  if (capturing) return false;
  try {
    known_.push_back(comm);
    polls_->renew(comm);  // the pointer of one that was retired may come back
  } catch (...) {
    return false;
  }
  return true;
}

// What the reduction is to this gate. It touches a declared range.
Gate::Window Gate::window(const Reduction& op) noexcept {
  if (phase_ == Phase::kOpen) {
    if (use_stream_locked(op.stream)) {
      return known_locked(op.comm, capturing_) ? Window::kStep : Window::kClosed;
    }
    // Recorded, while the step runs: a backward that is captured for later.
    return !capturing_ && !failed_ && known_locked(op.comm, true) ? Window::kGraph : Window::kClosed;
  }
  if (phase_ != Phase::kIdle || device_.immediate() || !enforcing()) return Window::kClosed;
  const bool capturing = device_.capture_state(op.stream) == device::CaptureState::kCapturing;
  const bool graph = known_locked(op.comm, capturing) && capturing;
  return graph ? Window::kGraph : Window::kClosed;
}

// Whether the call touches the span of memory that this gate's ranges lie in. Answered without the lock: a
// process may drive several devices, and what one gate waits for must not hold up another's reductions.
bool Gate::within_span(const void* data, std::uint64_t bytes) const noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return begin < span_end_.load(std::memory_order_acquire) &&
         begin + bytes > span_begin_.load(std::memory_order_acquire);
}

bool Gate::may_concern(const Reduction& op) const noexcept {
  const bool scatter = op.kind == OpKind::kReduceScatter;
  if (op.recv == nullptr || (scatter && op.world <= 0)) return true;
  const std::uint64_t bytes = op.count * element_bytes(op.type);
  const std::uint64_t sent = scatter ? bytes * static_cast<std::uint64_t>(op.world) : bytes;
  return within_span(op.recv, bytes) || within_span(op.send, sent);
}

void Gate::before(const Reduction& op) noexcept {
  if (!may_concern(op)) return;
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::kEnding || !attribution_on()) return;
  const std::uint64_t sends = op.kind == OpKind::kReduceScatter ? static_cast<std::uint64_t>(op.world) : 1;
  if (!wants(op, op.count * element_bytes(op.type), sends)) {
    // Elsewhere than on its root a reduce shows no receive buffer to know a gradient by.
    if (op.recv == nullptr) attributing_ = false;
    return;
  }
  const Window w = window(op);
  if (w == Window::kClosed) {
    attributing_ = false;
    return;
  }
  const auto start = Clock::now();
  attribute(op, w);
  if (w == Window::kStep) mark_stream_locked(op.stream);
  scan_seconds_ += seconds_since(start);
}

void Gate::attribute(const Reduction& op, Window w) noexcept {
  const bool scatter = op.kind == OpKind::kReduceScatter;
  // Elements that a reduce-scatter sends are a multiple of those it receives; among an unknown number of
  // ranks their number is unknown.
  const std::uint64_t sends = scatter ? static_cast<std::uint64_t>(op.world) : 1;
  const std::uint64_t bytes = op.count * element_bytes(op.type);
  bool named = sends != 0 && attribute_ranges(op, op.send, bytes * sends, false, w);
  if (!named && sends != 0 && !scatter) named = attribute_ranges(op, op.recv, bytes, true, w);
  if (!named && sends != 0) named = attribute_anonymous(op, op.count * sends, w);
  if (!named) (w == Window::kGraph ? graph_unnamed_ = true : attributing_ = false);
}

// Input ranges by their own addresses; result ranges by their place in the receive buffer, carried
// over to the send buffer. False where no range is declared there, or one sticks out: then the
// buffer is looked at as a whole instead. Padding between and after ranges belongs to nobody.
bool Gate::attribute_ranges(const Reduction& op, const void* data, std::uint64_t bytes, bool result,
                            Window w) noexcept {
  hits_.clear();
  ranges_.touching(data, bytes, result, &hits_);
  if (hits_.empty()) return false;
  if (result && op.send != op.recv && !readable_send(op.send)) return false;
  const std::ptrdiff_t shift =
      result ? static_cast<const char*>(op.send) - static_cast<const char*>(op.recv) : 0;
  for (const RangeTable::Hit& h : hits_) {
    if (!h.inside) return false;
  }
  bool all = true;
  for (const RangeTable::Hit& h : hits_) all = attribute_range(h.id, shift, op.stream, w) && all;
  if (!all) (w == Window::kGraph ? graph_unnamed_ = true : attributing_ = false);
  return true;
}

bool Gate::attribute_range(std::uint32_t id, std::ptrdiff_t shift, device::Stream s, Window w) noexcept {
  Range& r = ranges_.slot(id);
  shifted_.clear();
  for (device::Segment seg : r.spec.segments) {
    seg.data = static_cast<const char*>(seg.data) + shift;
    shifted_.push_back(seg);
    counters_.bytes(ScanPhase::kLocal, seg.count * element_size(r.spec.type));
  }
  r.graph = r.graph || w == Window::kGraph || capturing_;
  if (w == Window::kStep) after_last_scan_locked(r, s);
  RangeSlot& slot = slots_.get()[kAnonymousSlots + id];
  device::Scan job;
  job.segments = shifted_;
  job.stored = r.spec.type;
  job.compute = r.spec.compute;
  job.total = &slot.local;
  job.per_segment = segment_stats_[id].get();
  job.first_bad = &slot.first_bad_segment;
  if (r.graph) {
    // The host will not know whether a graph has run: the device tells by the stamp.
    captured_ = true;
    job.epoch = &block_.get()->step;
    job.stamp = &slot.local_step;
  }
  if (device_.scan(s, job) != device::Code::kOk) {
    counters_.error(metrics::Stage::kScan);
    return false;
  }
  return true;
}

// A send buffer that nobody declared still tells which rank; only the parameter stays unknown. Not in a
// graph: nothing has been set aside for it there.
bool Gate::attribute_anonymous(const Reduction& op, std::uint64_t count, Window w) noexcept {
  ElementType type{};
  if (w == Window::kGraph || capturing_ || anonymous_ == kAnonymousSlots ||
      !element_type_of(op.type, &type) || !readable_send(op.send)) {
    return false;
  }
  const device::Segment whole{op.send, count};
  device::Scan job;
  job.segments = {&whole, 1};
  job.stored = type;
  job.compute = type;
  job.total = &slots_.get()[anonymous_].local;
  job.first_bad = &slots_.get()[anonymous_].first_bad_segment;
  if (device_.scan(op.stream, job) != device::Code::kOk) {
    counters_.error(metrics::Stage::kScan);
    return false;
  }
  counters_.bytes(ScanPhase::kLocal, count * element_size(type));
  ++anonymous_;
  return true;
}

void Gate::after(const Reduction& op, Outcome outcome) noexcept {
  if (!may_concern(op)) return counters_.passed(op_of(op.kind));
  const std::lock_guard lock(mutex_);
  hits_.clear();
  ranges_.touching(op.recv, op.count * element_bytes(op.type), true, &hits_);
  if (op.kind == OpKind::kMovement) return moved_locked(op, outcome);
  const Window w = hits_.empty() ? Window::kClosed : window(op);
  if (phase_ == Phase::kOpen && w != Window::kGraph) {
    for (const RangeTable::Hit& h : hits_) {
      rewritten_locked(ranges_.slot(h.id));
      ranges_.slot(h.id).reduced = true;
    }
    if (!hits_.empty() && outcome == Outcome::kDropped) drop_veto_ = true;
  }
  if (w == Window::kStep && outcome == Outcome::kPending) {
    hold_locked(op);
  } else if (w == Window::kClosed || outcome != Outcome::kLaunched) {
    counters_.passed(op_of(op.kind));
  } else {
    cover(op, w);
  }
}

// What it fills is read again at the step's end, behind it: after its stream, and not before NCCL's helper
// thread has launched it. One that failed may have filled a part.
void Gate::moved_locked(const Reduction& op, Outcome outcome) noexcept {
  if (phase_ != Phase::kOpen || hits_.empty()) return;
  for (const RangeTable::Hit& h : hits_) rewritten_locked(ranges_.slot(h.id));
  if (outcome == Outcome::kPending) return hold_locked(op);
  if (window(op) == Window::kStep) mark_stream_locked(op.stream);
}

// Kept until its communicator says that it was launched.
void Gate::hold_locked(const Reduction& op) noexcept {
  try {
    pending_.hold(op);
  } catch (...) {
    failed_ = true;  // the step's end would not know that it has to wait for it
  }
}

void Gate::launched_locked(const Reduction& op) noexcept {
  if (phase_ != Phase::kOpen) return;
  hits_.clear();
  ranges_.touching(op.recv, op.count * element_bytes(op.type), true, &hits_);
  if (op.kind == OpKind::kMovement) return moved_locked(op, Outcome::kLaunched);
  const Window w = window(op);
  if (w == Window::kClosed) {
    counters_.passed(op_of(op.kind));
  } else {
    // Another reduction may have been read, and multiplied, while this one waited.
    for (const RangeTable::Hit& h : hits_) rewritten_locked(ranges_.slot(h.id));
    cover(op, w);
  }
}

// hits_ holds the result ranges that the reduction touched.
void Gate::cover(const Reduction& op, Window w) noexcept {
  counters_.scanned(op_of(op.kind));
  const auto start = Clock::now();
  for (const RangeTable::Hit& h : hits_) {
    Range& r = ranges_.slot(h.id);
    if (!h.inside || !r.spec.is_final || r.absent || r.unscaled) continue;
    // A graph may run more than once in a step, and what it multiplies must be multiplied once: the step's
    // end does it.
    if (w == Window::kGraph && options_.policy.unscale == UnscaleMode::kInHook) continue;
    const bool recorded = w == Window::kGraph || capturing_;
    captured_ = captured_ || recorded;
    r.graph = r.graph || recorded;
    if (w == Window::kStep) after_last_scan_locked(r, op.stream);
    const bool scanned = scan_reduced(h.id, op.stream);
    if (w == Window::kStep) r.covered = scanned;
  }
  if (w == Window::kStep) mark_stream_locked(op.stream);
  scan_seconds_ += seconds_since(start);
}

}  // namespace stepgate::gate

// Gate: what the intercepted reductions tell it.
//
// before() runs ahead of the job's own call and may only read the send buffer; after() runs once the
// call was launched and reads the receive buffer on the same stream. Both are noexcept and fail open:
// whatever goes wrong here is counted, and the step's end scans what the hooks left uncovered.
#include <chrono>
#include <cstddef>

#include "plugin/core/gate.h"
#include "plugin/core/pointer_kind.h"

namespace stepgate::gate {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

std::size_t bytes_of(ncclDataType_t t) {
  switch (t) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 0;
  }
}

bool element_type_of(ncclDataType_t t, ElementType* out) {
  switch (t) {
    case ncclFloat32: *out = ElementType::kFp32; return true;
    case ncclFloat16: *out = ElementType::kFp16; return true;
    case ncclBfloat16: *out = ElementType::kBf16; return true;
    case ncclFloat64: *out = ElementType::kFp64; return true;
    default: return false;
  }
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

void Gate::before(const Reduction& op) noexcept {
  const bool scatter = op.kind == OpKind::kReduceScatter;
  // Elements that a reduce-scatter sends are a multiple of those it receives.
  const std::uint64_t sends = scatter ? static_cast<std::uint64_t>(op.world) : 1;
  const std::lock_guard lock(mutex_);
  last_stream_ = op.stream;
  if (phase_ != Phase::kOpen || !attribution_on()) return;
  const std::uint64_t bytes = op.count * bytes_of(op.type);
  if (!wants(op, bytes, sends)) {
    // Elsewhere than on its root a reduce shows no receive buffer to know a gradient by.
    if (op.recv == nullptr) attributing_ = false;
    return;
  }
  if (sends == 0) {
    attributing_ = false;  // a reduce-scatter among an unknown number of ranks: its length is unknown
    return;
  }
  const auto start = Clock::now();
  bool named = attribute_ranges(op, op.send, bytes * sends, false);
  if (!named && !scatter) named = attribute_ranges(op, op.recv, bytes, true);
  if (!named && !attribute_anonymous(op, op.count * sends)) attributing_ = false;
  scan_seconds_ += seconds_since(start);
}

// Input ranges by their own addresses; result ranges by their place in the receive buffer, carried
// over to the send buffer. False where no range is declared there, or one sticks out: then the
// buffer is looked at as a whole instead. Padding between and after ranges belongs to nobody.
bool Gate::attribute_ranges(const Reduction& op, const void* data, std::uint64_t bytes,
                            bool result) noexcept {
  hits_.clear();
  ranges_.touching(data, bytes, result, &hits_);
  if (result && op.send != op.recv && is_device_only(op.send)) return false;
  const std::ptrdiff_t shift =
      result ? static_cast<const char*>(op.send) - static_cast<const char*>(op.recv) : 0;
  if (hits_.empty()) return false;
  for (const RangeTable::Hit& h : hits_) {
    if (!h.inside) return false;
  }
  for (const RangeTable::Hit& h : hits_) {
    if (!attribute_range(h.id, shift, op.stream)) attributing_ = false;
  }
  return true;
}

bool Gate::attribute_range(std::uint32_t id, std::ptrdiff_t shift, device::Stream s) noexcept {
  Range& r = ranges_.slot(id);
  shifted_.clear();
  for (device::Segment seg : r.spec.segments) {
    seg.data = static_cast<const char*>(seg.data) + shift;
    shifted_.push_back(seg);
    counters_.bytes(ScanPhase::kLocal, seg.count * element_size(r.spec.type));
  }
  device::Scan job;
  job.segments = shifted_;
  job.stored = r.spec.type;
  job.compute = r.spec.compute;
  job.total = &slots_.get()[kAnonymousSlots + id].local;
  job.per_segment = segment_stats_[id].get();
  job.first_bad = &slots_.get()[kAnonymousSlots + id].first_bad_segment;
  if (device_.scan(s, job) != device::Code::kOk) {
    counters_.error(metrics::Stage::kScan);
    return false;
  }
  r.attributed = true;
  return true;
}

// A send buffer that nobody declared still tells which rank; only the parameter stays unknown.
bool Gate::attribute_anonymous(const Reduction& op, std::uint64_t count) noexcept {
  ElementType type{};
  if (anonymous_ == kAnonymousSlots || !element_type_of(op.type, &type) || is_device_only(op.send))
    return false;
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
  const std::lock_guard lock(mutex_);
  last_stream_ = op.stream;
  const std::uint64_t bytes = op.count * bytes_of(op.type);
  hits_.clear();
  ranges_.touching(op.recv, bytes, true, &hits_);
  if (hits_.empty() || phase_ != Phase::kOpen) {
    counters_.passed(op_of(op.kind));
    return;
  }
  for (const RangeTable::Hit& h : hits_) {
    ranges_.slot(h.id).covered = false;
    ranges_.slot(h.id).reduced = true;
  }
  if (outcome == Outcome::kDropped) drop_veto_ = true;
  if (outcome != Outcome::kLaunched) {
    counters_.passed(op_of(op.kind));
    return;
  }
  counters_.scanned(op_of(op.kind));
  const auto start = Clock::now();
  cover(op);
  scan_seconds_ += seconds_since(start);
}

// hits_ holds the result ranges that the reduction touched.
void Gate::cover(const Reduction& op) noexcept {
  for (const RangeTable::Hit& h : hits_) {
    Range& r = ranges_.slot(h.id);
    if (h.inside && r.spec.is_final && !r.absent) r.covered = scan_reduced(h.id, op.stream);
  }
}

void Gate::written(const void* data, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kOpen) return;
  hits_.clear();
  ranges_.touching(data, bytes, true, &hits_);
  for (const RangeTable::Hit& h : hits_) ranges_.slot(h.id).covered = false;
}

}  // namespace stepgate::gate

// Gate: order between the streams that carry a step, and communicators whose helper threads launch.
//
//   step's stream:    begin_step  | begun_ .................... join -> summarize -> exchange -> end
//   another stream:   wait(begun_) -> local scan -> the job's call -> reduced scan -> (join)
//
// Marks are recorded and waited for on the device; the host never waits here, but for NCCL's own helper
// threads. A stream that is being captured and one that is not may not be tied to each other: CUDA would
// end the capture. So it is asked before, once per stream and step.
#include <algorithm>

#include "plugin/core/gate.h"
#include "plugin/core/last_error.h"
#include "plugin/core/nccl_calls.h"

namespace stepgate::gate {

using device::CaptureState;
using device::Code;

// A call of the step's life goes onto s: after all that such calls enqueued before, wherever that was.
bool Gate::enter_locked(device::Stream s, CaptureState state) noexcept {
  if (device_.immediate()) return true;
  if (state == CaptureState::kCapturing) {
    captured_ = true;  // what launches the graph orders it
    return settle_pokes_locked();
  }
  if (state != CaptureState::kNone) return false;
  // Handles of streams come back: two calls are on one stream for certain only within a step.
  if (last_ == nullptr || (phase_ != Phase::kIdle && s == last_stream_)) return true;
  return device_.wait(s, last_) == Code::kOk;
}

void Gate::leave_locked(device::Stream s, CaptureState state) noexcept {
  if (device_.immediate() || state != CaptureState::kNone) return;
  if (device_.record(s, done_) != Code::kOk) {
    broken_ = true;  // what comes next could not be put behind this
    return;
  }
  last_ = done_;
  last_stream_ = s;
}

// The gate's own stream, for calls that are given none.
bool Gate::control_locked() noexcept {
  return enter_locked(control_, CaptureState::kNone);
}

void Gate::poked_locked() noexcept {
  ++pokes_;
  leave_locked(control_, CaptureState::kNone);
}

// A graph cannot be put behind what was written on the gate's stream; by the time it runs that is there.
bool Gate::settle_pokes_locked() noexcept {
  if (pokes_ == settled_pokes_) return true;
  settled_pokes_ = pokes_;
  return device_.synchronize(control_) == Code::kOk;
}

bool Gate::after_pokes_locked(device::Stream s, std::uint64_t* seen) noexcept {
  if (*seen == pokes_ || capturing_) return true;
  *seen = pokes_;
  return device_.wait(s, last_) == Code::kOk;
}

// The stream's place among those of the open step; nullptr where there is none left.
Gate::Used* Gate::used_locked(device::Stream s) noexcept {
  const auto me = std::this_thread::get_id();
  for (std::size_t i = 0; i < used_count_; ++i) {
    // One handle names another stream in each thread.
    if (used_[i].stream == s && (s != kPerThreadStream || used_[i].thread == me)) return &used_[i];
  }
  if (used_count_ == used_.size()) return nullptr;
  Used& u = used_[used_count_];
  if (device_.wait(s, begun_) != Code::kOk) return nullptr;
  u.stream = s;
  u.thread = me;
  u.pokes = begin_pokes_;
  u.marked = false;
  ++used_count_;
  return &u;
}

// False: nothing of the open step may be enqueued on s. Asked at every reduction, for a capture may have
// begun or ended on the stream since the last one.
bool Gate::use_stream_locked(device::Stream s) noexcept {
  if (device_.immediate()) return true;
  const CaptureState state = device_.capture_state(s);
  // Nobody knows what would become of a scan there, and its reduction is part of the step.
  if (state == CaptureState::kUnknown || state == CaptureState::kFailed) failed_ = true;
  if (state != (capturing_ ? CaptureState::kCapturing : CaptureState::kNone)) return false;
  std::uint64_t* pokes = &step_pokes_;
  if (s != step_stream_) {
    Used* const u = used_locked(s);
    if (u == nullptr) {
      failed_ = true;  // its reductions are part of the step and cannot be seen in order
      return false;
    }
    pokes = &u->pokes;
  }
  if (!after_pokes_locked(s, pokes)) failed_ = true;
  return true;
}

// What the step's end waits for, so that the stream itself is not asked again.
void Gate::mark_stream_locked(device::Stream s) noexcept {
  if (device_.immediate() || s == step_stream_ || phase_ != Phase::kOpen) return;
  Used* const u = used_locked(s);
  if (u == nullptr || device_.record(s, u->mark) != Code::kOk) {
    failed_ = true;
  } else {
    u->marked = true;
  }
}

// Two scans of one range write to one place: the second comes after the first, whatever their streams are.
void Gate::after_last_scan_locked(Range& r, device::Stream s) noexcept {
  if (device_.immediate() || phase_ != Phase::kOpen) return;
  const bool elsewhere = r.scanned && r.scanned_on != s;
  const device::Stream before = r.scanned_on;
  r.scanned = true;
  r.scanned_on = s;
  if (!elsewhere) return;
  bool ordered = true;
  if (before == step_stream_) {
    ordered = device_.record(before, ordered_) == Code::kOk && device_.wait(s, ordered_) == Code::kOk;
  }
  for (std::size_t i = 0; i < used_count_; ++i) {
    const Used& u = used_[i];
    if (u.marked && u.stream == before) ordered = device_.wait(s, u.mark) == Code::kOk && ordered;
  }
  if (!ordered) failed_ = true;
}

// Everything of the step that other streams carry comes before what is enqueued on s from here on.
bool Gate::join_streams_locked(device::Stream s) noexcept {
  if (device_.immediate()) return true;
  bool all = true;
  if (s != step_stream_) {
    const CaptureState wanted = capturing_ ? CaptureState::kCapturing : CaptureState::kNone;
    all = device_.capture_state(step_stream_) == wanted &&
          device_.record(step_stream_, ordered_) == Code::kOk && device_.wait(s, ordered_) == Code::kOk;
  }
  for (std::size_t i = 0; i < used_count_; ++i) {
    const Used& u = used_[i];
    if (u.marked && u.stream != s) all = device_.wait(s, u.mark) == Code::kOk && all;
  }
  return all;
}

// A step that is recorded is recorded whole, and one that runs runs whole.
bool Gate::same_capture_locked(const char* function, CaptureState state, stepgate_status* why) const {
  if (state == CaptureState::kFailed || (state == CaptureState::kCapturing) == capturing_) return true;
  *why = fail(STEPGATE_INVALID, std::string(function) +
                                    (capturing_ ? ": the step was begun in a capture, and this stream is not"
                                                  " captured"
                                                : ": this stream is being captured, and the step was begun"
                                                  " outside of the capture"));
  return false;
}

// A capture with a step in it was thrown away.
void Gate::abandon_recording() noexcept {
  const std::lock_guard lock(mutex_);
  if (capturing_) phase_ = Phase::kIdle;
  capturing_ = false;
}

// Whether a call outside of the steps may write now: not into a step that is being recorded.
bool Gate::controllable_locked(const char* function, stepgate_status* why) noexcept {
  if (!capturing_ || phase_ == Phase::kIdle) {
    if (control_locked()) return true;
    *why = fail(STEPGATE_FAILED, std::string(function) + ": " + device_.last_error());
    return false;
  }
  *why = fail(STEPGATE_INVALID,
              std::string(function) + ": a step is being captured; call it before or after the capture");
  return false;
}

// Waits for the gate's own work, not for what the job enqueued behind it.
stepgate_status Gate::quiesce(const char* function) {
  {
    const std::lock_guard lock(mutex_);
    stepgate_status why = STEPGATE_OK;
    if (!controllable_locked(function, &why)) return why;
  }
  if (device_.synchronize(control_) == Code::kOk) return STEPGATE_OK;
  return fail(STEPGATE_FAILED, std::string(function) + ": " + device_.last_error());
}

// ---- non-blocking communicators

// A watchdog asks all day, and mutex_ may be held across a launch that waits.
void Gate::settled(ncclComm_t comm) noexcept {
  if (!pending_.mine(comm)) return;
  const std::lock_guard lock(mutex_);
  Reduction op;
  while (pending_.take_mine(comm, &op)) launched_locked(op);
}

void Gate::forget_pending_locked(ncclComm_t comm) noexcept {
  if (pending_.forget(comm) != 0) drop_veto_ = true;  // nobody will say what became of it
}

// Before the step's end: nothing of the step may still wait for a helper thread of NCCL, for a scan
// enqueued now would run ahead of the reduction.
void Gate::settle_pending() noexcept {
  for (;;) {
    ncclComm_t comm = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (phase_ != Phase::kOpen || pending_.none()) return;
      comm = pending_.first();
    }
    const NcclTable* table = services_.table_of(comm);
    const ncclResult_t state =
        table == nullptr ? ncclInternalError
                         : wait_launched(services_, *table, comm,
                                         options_.configuration.activation_timeout_seconds, *polls_);
    if (state == ncclSuccess) settled(comm);
    const std::lock_guard lock(mutex_);
    if (state != ncclSuccess) {
      counters_.error(metrics::Stage::kHook);
      forget_pending_locked(comm);
    }
    // What another thread issued has been launched and is read at the step's end.
    Reduction op;
    while (pending_.take(comm, &op)) {
      counters_.passed(static_cast<metrics::ReductionOp>(op.kind));
      if (op.stream == kPerThreadStream) {
        drop_veto_ = true;  // the other thread's stream has no name here
      } else {
        mark_stream_locked(op.stream);
      }
    }
  }
}

}  // namespace stepgate::gate

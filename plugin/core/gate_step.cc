// Gate: one step, from begin to the scaler's update.
//
// mutex_ is taken for the host's bookkeeping and let go around the exchange: the job's communicator
// may block there for as long as the slowest rank takes. What is enqueued between the last collective
// and found_inf: the scan of what no hook covered, summarize, the exchange, finish_step.
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>

#include "collectives/core/decimal.h"
#include "plugin/core/gate.h"
#include "plugin/core/last_error.h"
#include "plugin/core/pointer_kind.h"

namespace stepgate::gate {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

stepgate_status inactive(const char* function) {
  return fail(STEPGATE_INACTIVE, std::string(function) +
                                     ": enforce is not active on this gate; call "
                                     "stepgate_enforce_begin on every rank first");
}

}  // namespace

stepgate_status per_thread(const char* function) {
  return fail(STEPGATE_INVALID, std::string(function) +
                                    ": cudaStreamPerThread is another stream in every thread; allowed: the "
                                    "default stream, or one that the job has created");
}

namespace {

stepgate_status captures_elsewhere(const char* function) {
  return fail(STEPGATE_INVALID,
              std::string(function) + ": the default stream cannot be used while another stream is captured");
}

constexpr char kNoStep[] = ": no step is open; call stepgate_step_begin";
constexpr char kEndedWhole[] =
    ": no step is open, for stepgate_step_end has ended it and moved the scale: it is for one set a step; "
    "allowed: stepgate_step_begin, and for several sets stepgate_summarize, a sum of your own and "
    "stepgate_decide for each, then stepgate_scaler_update once";

std::string set_text(std::uint32_t set) {
  return "set " + std::to_string(set) + "; allowed: 0 to " + std::to_string(kMaxSets - 1);
}

}  // namespace

stepgate_status Gate::step_begin(device::Stream s) {
  const std::lock_guard lock(mutex_);
  if (!enforcing()) return inactive("stepgate_step_begin");
  if (phase_ != Phase::kIdle) {
    return fail(STEPGATE_INVALID, "stepgate_step_begin: step " + std::to_string(step_) +
                                      " is still open; end it with stepgate_step_end or "
                                      "stepgate_scaler_update");
  }
  if (s == kPerThreadStream && !device_.immediate()) return per_thread("stepgate_step_begin");
  const device::CaptureState state = device_.capture_state(s);
  if (state == device::CaptureState::kUnknown) return captures_elsewhere("stepgate_step_begin");
  capturing_ = state == device::CaptureState::kCapturing;
  failed_ = !enter_locked(s, state);
  step_stream_ = s;
  begin_pokes_ = step_pokes_ = pokes_;
  used_count_ = 0;
  pending_.clear();
  ranges_.begin_step();
  anonymous_ = 0;
  if (!capturing_) ++step_;  // a recorded step has not begun; each replay begins one
  any_begun_ = true;
  summarized_ = decided_ = applied_sets_ = late_ = 0;
  drop_veto_ = false;
  unscaling_ = options_.policy.unscale == UnscaleMode::kInHook;
  attributing_ = attribution_on();
  scan_seconds_ = agreement_seconds_ = 0;
  phase_ = Phase::kOpen;
  ended_whole_ = false;
  const device::BeginStep job{block_.get(), slots_.get(), kAnonymousSlots + ranges_.slots(), mirror_.get()};
  const bool begun = device_.begin_step(s, job) == device::Code::kOk;
  const bool marked = device_.record(s, begun_) == device::Code::kOk;
  if (marked && state == device::CaptureState::kNone) {
    last_ = begun_;
    last_stream_ = s;
  }
  failed_ = failed_ || !begun || !marked || broken_;
  if (failed_) counters_.error(metrics::Stage::kSummarize);
  return STEPGATE_OK;
}

stepgate_status Gate::scale(double* out) {
  const std::lock_guard lock(mutex_);
  if (!device_.immediate()) {
    return fail(STEPGATE_UNSUPPORTED,
                "stepgate_scale: on a CUDA device the host does not know the scale without waiting; read "
                "stepgate_outputs()->scale on the device, or call stepgate_state between steps");
  }
  *out = phase_ == Phase::kIdle ? mirror_.get()->scaler.scale : mirror_.get()->latched_scale;
  return STEPGATE_OK;
}

stepgate_status Gate::veto(device::Stream s) {
  const std::lock_guard lock(mutex_);
  if (!enforcing()) return inactive("stepgate_veto");
  if (phase_ != Phase::kOpen) return fail(STEPGATE_INVALID, "stepgate_veto: no step is open");
  if (!use_stream_locked(s)) {
    return fail(STEPGATE_INVALID,
                "stepgate_veto: the stream is being captured and the step is not, or the other way round");
  }
  if (device_.veto(s, block_.get()) != device::Code::kOk) failed_ = true;
  return STEPGATE_OK;
}

bool Gate::summarize_locked(std::uint32_t set, device::Stream s, double* fields) noexcept {
  reached_.store(begun_steps_locked(), std::memory_order_relaxed);
  if (!join_streams_locked(s)) failed_ = true;
  if (!cover_missing_locked(set, s)) failed_ = true;
  const device::Summarize job{block_.get(), set,          slots_.get(), kAnonymousSlots + ranges_.slots(),
                              fields,       attributing_, drop_veto_};
  if (device_.summarize(s, job) != device::Code::kOk) {
    failed_ = true;
    withhold_locked(set, s);
  }
  summarized_ |= 1u << set;
  if (failed_) counters_.error(metrics::Stage::kSummarize);
  return !failed_;
}

// The summary should have withdrawn the last decision and did not: an optimizer that reads found_inf on
// the device must not take it for this step's.
void Gate::withhold_locked(std::uint32_t set, device::Stream s) noexcept {
  static constexpr float kSkip = 1;
  device_.copy_in(s, &block_.get()->sets[set].outputs.found_inf, &kSkip, sizeof kSkip);
}

bool Gate::ready_for_step_locked(const char* function, std::uint32_t set, stepgate_status* why) const {
  if (set >= kMaxSets) {
    *why = fail(STEPGATE_INVALID, std::string(function) + ": " + set_text(set));
  } else if (!enforcing()) {
    *why = inactive(function);
  } else if (phase_ != Phase::kOpen) {
    *why = fail(STEPGATE_INVALID, std::string(function) + (ended_whole_ ? kEndedWhole : kNoStep));
  } else if (summarized_ & (1u << set)) {
    *why = fail(STEPGATE_INVALID, std::string(function) + ": set " + std::to_string(set) +
                                      " has been summarized in this step already");
  } else {
    return true;
  }
  return false;
}

// The caller's array may lie on the host, where kernels do not reach it: then the gate's own stands in.
stepgate_status Gate::summarize(std::uint32_t set, device::Stream s, double* fields) {
  settle_pending();
  const std::lock_guard lock(mutex_);
  stepgate_status why = STEPGATE_OK;
  if (!ready_for_step_locked("stepgate_summarize", set, &why)) return why;
  const device::CaptureState state = device_.capture_state(s);
  if (!same_capture_locked("stepgate_summarize", state, &why)) return why;
  // Asked again where the driver did not say: what a kernel does not reach the host will write.
  const bool of_a_device = is_device_only(fields);
  const bool reached = device_.immediate()
                           ? !of_a_device
                           : device_.reaches(fields) || (of_a_device && device_.reaches(fields));
  if (!reached && of_a_device) {
    return fail(STEPGATE_INVALID,
                "stepgate_summarize: the summary array lies in memory of another device, or the driver does "
                "not say where; allowed: memory of the gate's device, or of the host");
  }
  if (!reached && state == device::CaptureState::kCapturing) {
    return fail(STEPGATE_INVALID,
                "stepgate_summarize: the summary array lies in memory that the device cannot write, which "
                "a capture cannot record; give device memory");
  }
  if (!enter_locked(s, state)) failed_ = true;
  static constexpr double kRest[STEPGATE_SUMMARY_FIELDS] = {};
  double* mine = reached ? fields : own_fields(set);
  device_.copy_in(s, mine, kRest, sizeof kRest);
  fields_of_[set] = fields;
  on_host_[set] = !reached;
  bool written = summarize_locked(set, s, mine);
  if (written && !reached) {
    written = device_.copy_out(s, fields, mine, sizeof kRest) == device::Code::kOk;
    if (!written) failed_ = true;
  }
  leave_locked(s, state);
  if (written) return STEPGATE_OK;
  if (!reached) {
    std::memcpy(fields, failure_fields_.data(), sizeof failure_fields_);
    return STEPGATE_OK;
  }
  if (device_.copy_in(s, fields, failure_fields_.data(), sizeof failure_fields_) == device::Code::kOk) {
    return STEPGATE_OK;
  }
  return fail(STEPGATE_FAILED,
              std::string("stepgate_summarize: nothing to sum was written: ") + device_.last_error());
}

double* Gate::own_fields(std::uint32_t set) const {
  return summary_.get() + std::size_t{set} * kExchangeFields;
}

stepgate_status Gate::decide(std::uint32_t set, device::Stream s) {
  const std::lock_guard lock(mutex_);
  if (set >= kMaxSets) return fail(STEPGATE_INVALID, "stepgate_decide: " + set_text(set));
  if (phase_ != Phase::kOpen || !(summarized_ & (1u << set)) || (decided_ & (1u << set))) {
    return fail(STEPGATE_INVALID, "stepgate_decide: set " + std::to_string(set) +
                                      " has no summary of the open step that waits for a decision");
  }
  return decide_locked(set, s, fields_of_[set]);
}

stepgate_status Gate::decide_locked(std::uint32_t set, device::Stream s, const double* fields) {
  const device::CaptureState state = device_.capture_state(s);
  stepgate_status why = STEPGATE_OK;
  if (!same_capture_locked("stepgate_decide", state, &why)) return why;
  if ((late_ & (1u << set)) != 0) {
    counters_.error(metrics::Stage::kDecide);
    return fail(STEPGATE_UNDECIDED, "stepgate_decide: a gradient of set " + std::to_string(set) +
                                        " was written again after its summary (unscale = in_hook)");
  }
  bool ready = enter_locked(s, state);
  if (on_host_[set]) {
    double* mine = own_fields(set);
    ready = device_.copy_in(s, mine, fields, sizeof(double) * kExchangeFields) == device::Code::kOk && ready;
    fields = mine;
  }
  if (!ready || device_.decide(s, block_.get(), set, fields) != device::Code::kOk) {
    counters_.error(metrics::Stage::kDecide);
    return fail(STEPGATE_UNDECIDED, std::string("stepgate_decide: ") + device_.last_error());
  }
  decided_ |= 1u << set;
  mirror_locked(s);
  leave_locked(s, state);
  return STEPGATE_OK;
}

stepgate_status Gate::scaler_update(device::Stream s) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kOpen) return fail(STEPGATE_INVALID, "stepgate_scaler_update: no step is open");
  const device::CaptureState state = device_.capture_state(s);
  stepgate_status why = STEPGATE_OK;
  if (!same_capture_locked("stepgate_scaler_update", state, &why)) return why;
  if (!enter_locked(s, state)) counters_.error(metrics::Stage::kDecide);
  return finish_locked(kNoSet, s, state);
}

device::FinishStep Gate::finish_job(std::int32_t decide_set) {
  device::FinishStep job;
  job.g = block_.get();
  job.decide_set = decide_set;
  if (decide_set != kNoSet) job.fields = own_fields(static_cast<std::uint32_t>(decide_set));
  job.publish_sets = decided_;
  job.slots = slots_.get();
  job.slot_count = kAnonymousSlots + ranges_.slots();
  job.ring = {ring_.get(), ring_head_.get()};
  // A graph would repeat the times of its recording, and the host's clock knows nothing of a device's work.
  if (!capturing_) job.extras.timestamp_seconds = unix_seconds();
  if (device_.immediate()) {
    job.extras.scan_seconds = scan_seconds_;
    job.extras.agreement_seconds = agreement_seconds_;
  }
  job.table = {{table_[0].get(), table_[1].get()}, table_stamps_.get()};
  job.mirror = mirror_.get();
  return job;
}

// Decides decide_set where one is left to decide, then ends the step.
stepgate_status Gate::finish_locked(std::int32_t decide_set, device::Stream s, device::CaptureState state) {
  phase_ = Phase::kIdle;
  ended_whole_ = decide_set != kNoSet;
  const std::uint32_t before = decided_;
  if (decide_set != kNoSet) decided_ |= 1u << decide_set;
  const bool finished = device_.finish_step(s, finish_job(decide_set)) == device::Code::kOk;
  const std::string error = finished ? "" : std::string(": ") + device_.last_error();
  if (!finished) {
    decided_ = before;
    broken_ = broken_ || before != 0;  // the others' scale moves on
    counters_.error(metrics::Stage::kDecide);
  }
  leave_locked(s, state);
  capturing_ = false;
  if (device_.immediate()) harvest_locked();
  if (finished && decided_ == summarized_ && decided_ != 0) return STEPGATE_OK;
  return fail(STEPGATE_UNDECIDED,
              "step " + std::to_string(step_) +
                  ": a set got no decision; found_inf stays 1 and the next summary says so" + error);
}

// In this step found_inf stays as its summary left it; unguarded ones begin with the next.
void Gate::release_locked(device::Stream s) noexcept {
  static constexpr std::uint32_t kReleased = 1;
  if (device_.copy_in(s, &block_.get()->released, &kReleased, sizeof kReleased) != device::Code::kOk) {
    broken_ = true;
  }
  if (!capturing_ && !release_counted_) counters_.released(metrics::ReleaseReason::kDegraded);
  release_counted_ = release_counted_ || !capturing_;
}

stepgate_status Gate::step_end(std::uint32_t set, device::Stream s) {
  double* fields = nullptr;
  const double* send = nullptr;
  device::CaptureState state = device::CaptureState::kNone;
  std::uint64_t agreement = 0;
  bool cut_off = false;
  settle_pending();
  {
    const std::lock_guard lock(mutex_);
    stepgate_status why = STEPGATE_OK;
    if (!ready_for_step_locked("stepgate_step_end", set, &why)) return why;
    state = device_.capture_state(s);
    if (!same_capture_locked("stepgate_step_end", state, &why)) return why;
    if (!enter_locked(s, state)) failed_ = true;
    fields = own_fields(set);
    // Whoever lost a group reaches some ranks only: all that it reaches are released in this step, and so is
    // it, to whom no sums will say so.
    cut_off = !groups_.chain().whole();
    if (cut_off) failed_ = true;
    send = summarize_locked(set, s, fields) ? fields : failure_.get();
    phase_ = Phase::kEnding;
    agreement = agreement_;
  }
  const auto start = Clock::now();
  std::string error;
  const bool exchanged = exchange_step(send, fields, s, agreement, &error);
  const std::lock_guard lock(mutex_);
  if (agreement != agreement_) {
    return fail(STEPGATE_UNDECIDED,
                "stepgate_step_end: the gate was reset while the step's exchange was under way");
  }
  agreement_seconds_ = seconds_since(start);
  if (exchanged) return finish_locked(static_cast<std::int32_t>(set), s, state);
  summary_in_doubt_ = true;
  counters_.error(metrics::Stage::kExchange);
  log_.error("step " + std::to_string(step_) + " undecided: " + error);
  if (cut_off) release_locked(s);
  finish_locked(kNoSet, s, state);
  return fail(STEPGATE_UNDECIDED, "stepgate_step_end: " + error);
}

stepgate_status Gate::set_scale(double scale) {
  const BeforeReplays settled(*this);
  const std::lock_guard lock(mutex_);
  const auto fp32 = static_cast<float>(scale);
  const auto inverse = static_cast<float>(1.0 / scale);
  if (!std::isfinite(fp32) || !(fp32 > 0) || !std::isfinite(inverse) || !(inverse > 0)) {
    return fail(STEPGATE_INVALID, "stepgate_set_scale: scale " + shortest_decimal(scale) +
                                      "; allowed: above zero, it and its inverse finite in fp32");
  }
  if (phase_ != Phase::kIdle) {
    return fail(STEPGATE_INVALID,
                "stepgate_set_scale: a step is open; its scale is latched, set it between steps");
  }
  if (options_.params.rule == ScalerRule::kNone) {
    return fail(STEPGATE_INVALID, "stepgate_set_scale: rule 'none' has no scale");
  }
  stepgate_status why = STEPGATE_OK;
  if (!controllable_locked("stepgate_set_scale", &why)) return why;
  if (device_.copy_in(control_, &block_.get()->scaler.scale, &scale, sizeof scale) != device::Code::kOk) {
    return fail(STEPGATE_FAILED, std::string("stepgate_set_scale: ") + device_.last_error());
  }
  for (SetBlock& s : block_.get()->sets) put_locked(&s.outputs.scale, &fp32, sizeof fp32);
  counters_.external_scale();
  mirror_locked(control_);
  poked_locked();
  return STEPGATE_OK;
}

void Gate::mirror_locked(device::Stream s) noexcept {
  if (device_.copy_out(s, mirror_.get(), block_.get(), sizeof(GateBlock)) != device::Code::kOk) {
    broken_ = true;
  }
}

}  // namespace stepgate::gate

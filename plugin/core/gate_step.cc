// Gate: one step, from begin to the scaler's update.
//
// mutex_ is taken for the host's bookkeeping and let go around the exchange: the job's communicator
// may block there for as long as the slowest rank takes.
#include <chrono>
#include <cmath>
#include <limits>
#include <string>

#include "collectives/core/decimal.h"
#include "plugin/core/gate.h"
#include "plugin/core/last_error.h"

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
  last_stream_ = s;
  failed_ = device_.begin_step(s, block_.get()) != device::Code::kOk;  // clear and mirror may add to it
  clear_local_locked(s);
  ranges_.begin_step();
  ++step_;
  begun_ = true;
  summarized_ = decided_ = applied_sets_ = 0;
  drop_veto_ = false;
  attributing_ = attribution_on();
  scan_seconds_ = agreement_seconds_ = 0;
  phase_ = Phase::kOpen;
  mirror_locked(s);
  failed_ = failed_ || broken_;
  if (failed_) counters_.error(metrics::Stage::kSummarize);
  return STEPGATE_OK;
}

// Local statistics speak of one step; a range without a reduction in the next must not keep them.
void Gate::clear_local_locked(device::Stream s) noexcept {
  static constexpr GradStats kNothing{};
  static constexpr std::int32_t kNone = -1;
  const auto clear = [&](RangeSlot* slot) {
    const bool cleared =
        device_.copy_in(s, &slot->local, &kNothing, sizeof kNothing) == device::Code::kOk &&
        device_.copy_in(s, &slot->first_bad_segment, &kNone, sizeof kNone) == device::Code::kOk;
    failed_ = failed_ || !cleared;
  };
  for (std::uint32_t i = 0; i < anonymous_; ++i) clear(slots_.get() + i);
  for (std::uint32_t i = 0; i < ranges_.slots(); ++i) {
    if (ranges_.slot(i).attributed) clear(slots_.get() + kAnonymousSlots + i);
  }
  anonymous_ = 0;
}

stepgate_status Gate::scale(double* out) {
  const std::lock_guard lock(mutex_);
  *out = phase_ == Phase::kIdle ? mirror_.get()->scaler.scale : mirror_.get()->latched_scale;
  return STEPGATE_OK;
}

stepgate_status Gate::veto(device::Stream s) {
  const std::lock_guard lock(mutex_);
  if (!enforcing()) return inactive("stepgate_veto");
  if (phase_ != Phase::kOpen) return fail(STEPGATE_INVALID, "stepgate_veto: no step is open");
  if (device_.veto(s, block_.get()) != device::Code::kOk) failed_ = true;
  return STEPGATE_OK;
}

bool Gate::scan_reduced(std::uint32_t id, device::Stream s) noexcept {
  const Range& r = ranges_.slot(id);
  device::Scan job;
  job.segments = r.spec.segments;
  job.stored = r.spec.type;
  job.compute = r.spec.compute;
  job.total = &slots_.get()[kAnonymousSlots + id].reduced;
  if (device_.scan(s, job) != device::Code::kOk) {
    counters_.error(metrics::Stage::kScan);
    return false;
  }
  for (const device::Segment& seg : r.spec.segments) {
    counters_.bytes(ScanPhase::kReduced, seg.count * element_size(r.spec.type));
  }
  return true;
}

// Every declared result has final statistics before the summary: what no hook covered is read now.
bool Gate::cover_missing_locked(std::uint32_t set, device::Stream s) noexcept {
  const auto start = Clock::now();
  bool all = true;
  for (std::uint32_t i = 0; i < ranges_.slots(); ++i) {
    Range& r = ranges_.slot(i);
    if (!r.declared || !r.spec.result || r.spec.set != set || r.absent || r.covered) continue;
    if (r.reduced) {
      counters_.range_rescanned();
    } else {
      counters_.range_missing();
      attributing_ = false;  // its reduction was never seen, so nobody knows what went in
    }
    r.covered = scan_reduced(i, s);
    all = all && r.covered;
  }
  scan_seconds_ += seconds_since(start);
  return all;
}

bool Gate::summarize_locked(std::uint32_t set, device::Stream s, double* fields) noexcept {
  if (!cover_missing_locked(set, s)) failed_ = true;
  if (drop_veto_ && device_.veto(s, block_.get()) != device::Code::kOk) failed_ = true;
  const std::uint32_t attributing = attributing_;
  if (device_.copy_in(s, &block_.get()->attributing, &attributing, sizeof attributing) != device::Code::kOk) {
    failed_ = true;
  }
  const std::uint32_t count = kAnonymousSlots + ranges_.slots();
  if (device_.summarize(s, block_.get(), set, slots_.get(), count, fields) != device::Code::kOk) {
    failed_ = true;
    withhold_locked(set, s);
  }
  summarized_ |= 1u << set;
  fields_of_[set] = fields;
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
    *why = fail(STEPGATE_INVALID, std::string(function) + ": no step is open; call stepgate_step_begin");
  } else if (summarized_ & (1u << set)) {
    *why = fail(STEPGATE_INVALID, std::string(function) + ": set " + std::to_string(set) +
                                      " has been summarized in this step already");
  } else {
    return true;
  }
  return false;
}

stepgate_status Gate::summarize(std::uint32_t set, device::Stream s, double* fields) {
  const std::lock_guard lock(mutex_);
  stepgate_status why = STEPGATE_OK;
  if (!ready_for_step_locked("stepgate_summarize", set, &why)) return why;
  last_stream_ = s;
  static constexpr double kRest[STEPGATE_SUMMARY_FIELDS] = {};
  device_.copy_in(s, fields, kRest, sizeof kRest);
  if (!summarize_locked(set, s, fields) &&
      device_.copy_in(s, fields, failure_fields_.data(), sizeof failure_fields_) != device::Code::kOk) {
    return fail(STEPGATE_FAILED,
                std::string("stepgate_summarize: nothing to sum was written: ") + device_.last_error());
  }
  return STEPGATE_OK;
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
  last_stream_ = s;
  if (device_.decide(s, block_.get(), set, fields) != device::Code::kOk) {
    counters_.error(metrics::Stage::kDecide);
    return fail(STEPGATE_UNDECIDED, std::string("stepgate_decide: ") + device_.last_error());
  }
  decided_ |= 1u << set;
  mirror_locked(s);
  return STEPGATE_OK;
}

stepgate_status Gate::scaler_update(device::Stream s) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kOpen) return fail(STEPGATE_INVALID, "stepgate_scaler_update: no step is open");
  return update_locked(s);
}

stepgate_status Gate::update_locked(device::Stream s) {
  phase_ = Phase::kIdle;
  last_stream_ = s;
  const bool updated = device_.update_scale(s, block_.get()) == device::Code::kOk;
  publish_locked(s);
  if (updated && decided_ == summarized_ && decided_ != 0) return STEPGATE_OK;
  if (!updated) counters_.error(metrics::Stage::kDecide);
  return fail(STEPGATE_UNDECIDED,
              "step " + std::to_string(step_) +
                  ": a set got no decision; found_inf stays 1 and the next summary says so");
}

stepgate_status Gate::step_end(std::uint32_t set, device::Stream s) {
  double* fields = nullptr;
  const double* send = nullptr;
  {
    const std::lock_guard lock(mutex_);
    stepgate_status why = STEPGATE_OK;
    if (!ready_for_step_locked("stepgate_step_end", set, &why)) return why;
    fields = summary_.get() + std::size_t{set} * kExchangeFields;
    send = summarize_locked(set, s, fields) ? fields : failure_.get();
    phase_ = Phase::kEnding;
  }
  const auto start = Clock::now();
  std::string error;
  const bool exchanged = exchange_step(send, fields, s, &error);
  const std::lock_guard lock(mutex_);
  agreement_seconds_ = seconds_since(start);
  if (!exchanged) {
    counters_.error(metrics::Stage::kExchange);
    log_.error("step " + std::to_string(step_) + " undecided: " + error);
    update_locked(s);
    return fail(STEPGATE_UNDECIDED, "stepgate_step_end: " + error);
  }
  const stepgate_status decided = decide_locked(set, s, fields);
  const stepgate_status updated = update_locked(s);
  if (decided != STEPGATE_OK) return decided;
  return updated != STEPGATE_OK ? updated : STEPGATE_OK;
}

stepgate_status Gate::set_scale(double scale) {
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
  if (device_.copy_in(last_stream_, &block_.get()->scaler.scale, &scale, sizeof scale) != device::Code::kOk) {
    return fail(STEPGATE_FAILED, std::string("stepgate_set_scale: ") + device_.last_error());
  }
  for (SetBlock& s : block_.get()->sets) put_locked(&s.outputs.scale, &fp32, sizeof fp32);
  counters_.external_scale();
  mirror_locked(last_stream_);
  return STEPGATE_OK;
}

void Gate::mirror_locked(device::Stream s) noexcept {
  if (device_.copy_out(s, mirror_.get(), block_.get(), sizeof(GateBlock)) != device::Code::kOk) {
    broken_ = true;
  }
}

void Gate::publish_locked(device::Stream s) noexcept {
  const device::RingView ring{ring_.get(), ring_head_.get()};
  const device::RecordExtras extras{unix_seconds(), scan_seconds_, agreement_seconds_};
  const std::uint32_t count = kAnonymousSlots + ranges_.slots();
  for (std::uint32_t set = 0; set < kMaxSets; ++set) {
    if (!(decided_ & (1u << set))) continue;
    if (device_.publish(s, block_.get(), set, slots_.get(), count, ring, extras) != device::Code::kOk) {
      counters_.error(metrics::Stage::kPublish);
    }
  }
  device_.copy_out(s, slots_mirror_.get(), slots_.get(), count * sizeof(RangeSlot));
  mirror_locked(s);
  after_step_locked();
}

}  // namespace stepgate::gate

#include "tests/metrics/fake_source.h"

#include <algorithm>
#include <functional>
#include <stdexcept>

namespace stepgate::metrics::test {

FakeSource::FakeSource() {
  who_.rank = 3;
  who_.world = 4;
  who_.local_rank = 1;
  who_.host = "node-a";
  who_.job_name = "charlm";
  who_.run_id = "run-7";
  who_.device = "host";
  who_.nccl_version = "2.28.9";
  who_.rule = "stepgate";
  who_.version = "0.1.0";
  params_ = default_params(ScalerRule::kStepgate);
}

std::unique_lock<std::mutex> FakeSource::enter() const {
  std::unique_lock lock(mutex_);
  threads_.insert(std::this_thread::get_id());
  ++calls_;
  return lock;
}

Identity FakeSource::identity() const {
  const auto lock = enter();
  return who_;
}
ScalerParams FakeSource::scaler_params() const {
  const auto lock = enter();
  return params_;
}
bool FakeSource::enforcing() const {
  const auto lock = enter();
  return enforcing_;
}
bool FakeSource::ever_enforced() const {
  const auto lock = enter();
  return ever_;
}

std::size_t FakeSource::read_steps(std::uint64_t after, StepRecord* out, std::size_t capacity,
                                   std::uint64_t* lost) {
  const auto lock = enter();
  const std::uint64_t newest = steps_.size();
  const std::uint64_t oldest = newest > ring_ ? newest - ring_ : 0;  // sequences above it are there
  *lost = after < oldest ? oldest - after : 0;
  std::size_t n = 0;
  for (std::uint64_t i = std::max(after, oldest); i < newest && n < capacity; ++i) out[n++] = steps_[i];
  return n;
}

std::string FakeSource::range_name(std::uint32_t id) const {
  const auto lock = enter();
  const auto it = names_.find(id);
  return it == names_.end() ? "" : it->second;
}

void FakeSource::read_ranges(std::vector<RangeRecord>* out) {
  const auto lock = enter();
  for (const auto& [key, record] : ranges_) out->push_back(record);
}

void FakeSource::read_observations(std::vector<Observation>* out) {
  const auto lock = enter();
  out->insert(out->end(), observations_.begin(), observations_.end());
}

void FakeSource::show(const Observation& o) {
  const std::lock_guard lock(mutex_);
  for (Observation& have : observations_) {
    if (have.name != o.name || have.phase != o.phase) continue;
    have = o;
    return;
  }
  observations_.push_back(o);
}

Counters FakeSource::counters() const {
  const auto lock = enter();
  if (throwing_) throw std::runtime_error("made to fail");
  return counters_;
}

void FakeSource::set_identity(const Identity& who) {
  const std::lock_guard lock(mutex_);
  who_ = who;
}
void FakeSource::set_params(const ScalerParams& params) {
  const std::lock_guard lock(mutex_);
  params_ = params;
}
void FakeSource::set_enforcing(bool now) {
  const std::lock_guard lock(mutex_);
  enforcing_ = now;
  ever_ = ever_ || now;
}
void FakeSource::set_ring(std::size_t records) {
  const std::lock_guard lock(mutex_);
  ring_ = records;
}
void FakeSource::push(StepRecord record) {
  const std::lock_guard lock(mutex_);
  record.sequence = steps_.size() + 1;
  steps_.push_back(record);
}
void FakeSource::name_range(std::uint32_t id, const std::string& name) {
  const std::lock_guard lock(mutex_);
  names_[id] = name;
}
void FakeSource::put(const RangeRecord& record) {
  const std::lock_guard lock(mutex_);
  ranges_[{record.range, record.phase}] = record;
}
void FakeSource::change(const std::function<void(Counters&)>& how) {
  const std::lock_guard lock(mutex_);
  how(counters_);
}
void FakeSource::throw_from_counters(bool on) {
  const std::lock_guard lock(mutex_);
  throwing_ = on;
}
std::size_t FakeSource::calling_threads() const {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}
std::uint64_t FakeSource::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

StepRecord applied(std::uint64_t step, double norm, double scale) {
  StepRecord r;
  r.step = step;
  r.decision = undecided_step(scale);
  r.decision.skip = 0;
  r.decision.found_inf = 0;
  r.decision.norm = norm;
  r.scaler.scale = scale;
  r.timestamp_seconds = 1700000000.0 + static_cast<double>(step);
  return r;
}

StepRecord skipped(std::uint64_t step, Reason reason, std::int32_t offender, double scale) {
  StepRecord r;
  r.step = step;
  r.decision = undecided_step(scale);
  r.decision.reason = reason;
  r.decision.offender = offender;
  const bool overflow = reason == Reason::kNan || reason == Reason::kInf;
  r.decision.overflow = overflow;
  r.scaler.scale = overflow ? scale / 2 : scale;
  if (reason == Reason::kNan) r.sum_nan = 1;
  if (reason == Reason::kInf) r.sum_inf = 1;
  r.timestamp_seconds = 1700000000.0 + static_cast<double>(step);
  return r;
}

RangeRecord range(std::uint64_t step, std::uint32_t id, ScanPhase phase, std::uint64_t elements,
                  std::uint64_t zeros, std::uint64_t subnormals, double abs_max) {
  RangeRecord r;
  r.step = step;
  r.range = id;
  r.phase = static_cast<std::uint32_t>(phase);
  r.stats.elements = elements;
  r.stats.zeros = zeros;
  r.stats.subnormals = subnormals;
  r.stats.abs_max = abs_max;
  r.stats.sum_squares = 1;
  return r;
}

RangeRecord with_nonfinite(RangeRecord r, std::uint64_t inf, std::uint64_t nan) {
  r.stats.inf = inf;
  r.stats.nan = nan;
  return r;
}

}  // namespace stepgate::metrics::test

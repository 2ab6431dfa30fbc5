// Observer: from what scans left behind to the records of a step.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>

#include "plugin/core/observe/observer.h"

namespace stepgate::gate {
namespace {

// Unscaled where the job tells its scale. A gradient with an inf or NaN has none.
double norm_of(const GradStats& all, float scale) {
  if ((all.inf | all.nan) != 0) return std::numeric_limits<double>::quiet_NaN();
  const bool known = scale > 0 && std::isfinite(scale);
  return std::sqrt(all.sum_squares) / (known ? double{scale} : 1.0);
}

}  // namespace

metrics::Identity Observer::identity() const {
  return options_.identity;
}

// Takes what has become visible, oldest step first; nothing here waits for the device.
void Observer::harvest_locked() noexcept {
  try {
    while (!in_flight_.empty()) {
      Step& step = in_flight_.front();
      const bool whole = collect_locked(step);
      if (!step.ended || (!whole && !step.lost)) break;
      if (step.lost) {
        lose_locked();
      } else {
        publish_locked(step);
      }
      in_flight_.pop_front();
    }
    // What is there of later steps, before their watches' next calls overwrite it.
    for (std::size_t i = 1; i < in_flight_.size(); ++i) collect_locked(in_flight_[i]);
  } catch (...) {
    counters_.error(metrics::Stage::kPublish);
  }
}

// Whether every look of the step is there.
bool Observer::collect_locked(Step& step) {
  bool whole = true;
  for (Look& look : step.looks) {
    if (look.there) continue;
    const Watch& w = *ranges_[look.range].watch;
    // Asked first: a figure that comes in between is read, and one that is overwritten in between is lost.
    const bool passed = w.newest() > look.call + 1;
    look.there = w.read(look.call, &look.seen);
    whole = whole && look.there;
    step.lost = step.lost || (passed && !look.there);
  }
  return whole;
}

RangeRecord Observer::record_of(const Step& step, const Look& look, ScanPhase phase) const {
  RangeRecord r;
  r.step = step.number;
  r.range = look.range;
  r.phase = static_cast<std::uint32_t>(phase);
  r.stats = phase == ScanPhase::kReduced ? look.seen.reduced : look.seen.local;
  r.scale = step.scale;
  return r;
}

void Observer::publish_locked(Step& step) {
  if (step.scale_on_device) {
    step.scale = std::atomic_ref<float>(scales_.get()[step.number % (2 * kStepsInFlight)])
                     .load(std::memory_order_relaxed);
  }
  StepRecord record;
  record.step = step.number;
  record.rank = static_cast<std::uint32_t>(options_.identity.rank);
  record.decision.skip = 0;                        // nobody decides
  record.scaler = initial_state(scaler_params());  // and nothing of ours scales
  record.decision.offender = kOffenderUnknown;
  record.timestamp_seconds = step.timestamp;
  record.scan_seconds = device_.immediate() ? step.seconds : 0;
  std::vector<RangeRecord> ranges;
  ranges.reserve(2 * step.looks.size());
  PairwiseSum squares;
  for (const Look& look : step.looks) {
    ranges.push_back(record_of(step, look, ScanPhase::kReduced));
    add_counts(record.local_sum, look.seen.reduced);
    squares.push(look.seen.reduced.sum_squares);
    if (!look.local) continue;
    ranges.push_back(record_of(step, look, ScanPhase::kLocal));
    record.local_inf += look.seen.local.inf;
    record.local_nan += look.seen.local.nan;
  }
  record.local_sum.sum_squares = squares.total();
  record.decision.norm = norm_of(record.local_sum, step.scale);
  record.sum_elements = record.local_sum.elements;
  record.sum_inf = record.local_sum.inf;
  record.sum_nan = record.local_sum.nan;
  const std::lock_guard lock(records_mutex_);
  record.sequence = sequence_ + 1;
  records_.push_back(record);
  if (records_.size() > kRingRecords) records_.pop_front();
  ++sequence_;
  range_records_ = std::move(ranges);
}

void Observer::lose_locked() noexcept {
  const std::lock_guard lock(records_mutex_);
  ++lost_;
}

std::size_t Observer::read_steps(std::uint64_t after, StepRecord* out, std::size_t capacity,
                                 std::uint64_t* lost) {
  {
    // Never waits for the job: what it holds up now the next poll takes.
    const std::unique_lock hooks(mutex_, std::try_to_lock);
    if (hooks.owns_lock()) harvest_locked();
  }
  const std::lock_guard lock(records_mutex_);
  *lost = std::exchange(lost_, 0);
  std::size_t n = 0;
  if (!records_.empty() && records_.front().sequence > after + 1)
    *lost += records_.front().sequence - after - 1;
  for (const StepRecord& r : records_) {
    if (r.sequence <= after) continue;
    if (n == capacity) break;
    out[n++] = r;
  }
  return n;
}

std::string Observer::range_name(std::uint32_t range) const {
  const std::lock_guard lock(records_mutex_);
  return range < names_.size() ? names_[range] : std::string();
}

void Observer::read_ranges(std::vector<RangeRecord>* out) {
  const std::lock_guard lock(records_mutex_);
  out->insert(out->end(), range_records_.begin(), range_records_.end());
}

}  // namespace stepgate::gate

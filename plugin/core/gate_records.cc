// Gate: what happened, for the publisher, the C API and the log.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "plugin/core/gate.h"
#include "plugin/core/host.h"

namespace stepgate::gate {
namespace {

// Copies one record, word by word, and says whether the copy is whole (records.h: the protocol).
bool copy_record(StepRecord& from, std::uint64_t sequence, StepRecord* to) {
  constexpr std::size_t kWords = sizeof(StepRecord) / sizeof(std::uint64_t);
  auto* words = reinterpret_cast<std::uint64_t*>(&from);
  std::uint64_t copy[kWords];
  if (std::atomic_ref<std::uint64_t>(words[0]).load(std::memory_order_acquire) != sequence) return false;
  for (std::size_t i = 1; i < kWords; ++i) {
    copy[i] = std::atomic_ref<std::uint64_t>(words[i]).load(std::memory_order_acquire);
  }
  if (std::atomic_ref<std::uint64_t>(words[0]).load(std::memory_order_relaxed) != sequence) return false;
  copy[0] = sequence;
  std::memcpy(to, copy, sizeof copy);
  return true;
}

template <std::size_t N>
void copy_text(char (&to)[N], const std::string& from) {
  const std::size_t n = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), n);
  to[n] = '\0';
}

}  // namespace

metrics::Identity Gate::identity() const {
  const Configuration& c = options_.configuration;
  metrics::Identity id;
  id.gate = options_.name;
  id.local_rank = static_cast<int>(c.local_rank);
  id.host = host_name();
  id.job_name = c.job_name;
  id.run_id = c.run_id;
  id.torchelastic_restarts = c.torchelastic_restarts;
  id.slurm_restarts = c.slurm_restarts;
  id.device = device_.name();
  id.version = kVersionText;
  const std::lock_guard lock(records_mutex_);
  id.rank = options_.rank;
  id.world = options_.world;
  id.rule = scaler_rule_name(published_params_.rule);
  id.nccl_version = nccl_version_;
  return id;
}

ScalerParams Gate::scaler_params() const {
  const std::lock_guard lock(records_mutex_);
  return published_params_;
}

std::size_t Gate::read_steps(std::uint64_t after, StepRecord* out, std::size_t capacity,
                             std::uint64_t* lost) {
  {
    // Never waits for the job: what it holds up now the next poll takes.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) harvest_locked();
  }
  return copy_steps(after, out, capacity, lost);
}

std::size_t Gate::copy_steps(std::uint64_t after, StepRecord* out, std::size_t capacity,
                             std::uint64_t* lost) const {
  *lost = 0;
  const std::uint64_t head =
      std::atomic_ref<std::uint64_t>(*ring_head_.get()).load(std::memory_order_acquire);
  if (head <= after) return 0;
  const std::uint64_t oldest = head > kRingRecords ? head - kRingRecords : 0;
  if (after < oldest) {
    *lost = oldest - after;
    after = oldest;
  }
  std::size_t n = 0;
  for (std::uint64_t index = after; index < head && n < capacity; ++index) {
    if (copy_record(ring_.get()[index % kRingRecords], index + 1, &out[n])) {
      ++n;
    } else {
      ++*lost;  // overwritten while it was read
    }
  }
  return n;
}

std::string Gate::range_name(std::uint32_t range) const {
  const std::lock_guard lock(records_mutex_);
  return range < range_names_.size() ? range_names_[range] : std::string();
}

void Gate::read_ranges(std::vector<RangeRecord>* out) {
  const std::lock_guard lock(records_mutex_);
  out->insert(out->end(), range_records_.begin(), range_records_.end());
}

// Takes what has become visible since the last time: range statistics first, for the log names them.
// From the job's thread or the publisher's; nothing here waits for the device.
void Gate::harvest_locked() noexcept {
  try {
    if (copy_table_locked()) collect_ranges_locked();
    take_records_locked();
  } catch (...) {
    counters_.error(metrics::Stage::kPublish);
  }
}

// The newer turn of the table, where it is newer than what was taken and whole.
bool Gate::copy_table_locked() {
  const auto stamp_of = [&](std::size_t turn) {
    return std::atomic_ref<std::uint64_t>(table_stamps_.get()[turn]).load(std::memory_order_acquire);
  };
  const std::size_t turn = stamp_of(1) > stamp_of(0) ? 1 : 0;
  const std::uint64_t stamp = stamp_of(turn);
  if (stamp <= table_taken_) return false;
  table_copy_.resize(kAnonymousSlots + ranges_.slots());
  auto* from = reinterpret_cast<std::uint64_t*>(table_[turn].get());
  auto* to = reinterpret_cast<std::uint64_t*>(table_copy_.data());
  for (std::size_t i = 0; i < table_copy_.size() * sizeof(RangeSlot) / sizeof *to; ++i) {
    to[i] = std::atomic_ref<std::uint64_t>(from[i]).load(std::memory_order_acquire);
  }
  if (stamp_of(turn) != stamp) return false;  // overtaken; the next harvest finds a newer one
  table_taken_ = stamp;
  return true;
}

void Gate::collect_ranges_locked() {
  std::vector<RangeRecord> fresh;
  fresh.reserve(std::size_t{2} * ranges_.slots());
  for (std::uint32_t i = 0; i < ranges_.slots(); ++i) {
    const RangeSlot& s = table_copy_[kAnonymousSlots + i];
    if (ranges_.slot(i).since > table_taken_) continue;  // its slot was another range's then
    RangeRecord record;
    record.step = table_taken_;
    record.range = i;
    if (s.live && s.reduced_step == table_taken_) {
      record.phase = static_cast<std::uint32_t>(ScanPhase::kReduced);
      record.stats = s.reduced;
      fresh.push_back(record);
    }
    if (s.local.elements == 0) continue;
    record.phase = static_cast<std::uint32_t>(ScanPhase::kLocal);
    record.stats = s.local;
    record.first_bad_segment = s.first_bad_segment;
    fresh.push_back(record);
    if (s.local.inf != 0 || s.local.nan != 0) collect_offenders_locked(i, s);
  }
  const std::lock_guard lock(records_mutex_);
  range_records_ = std::move(fresh);
}

// Whether the device has begun no step after the one whose table was taken: what scans write per segment
// is still that step's.
bool Gate::still_in_step_locked() const {
  return std::atomic_ref<std::uint64_t>(mirror_.get()->step).load(std::memory_order_acquire) == table_taken_;
}

void Gate::collect_offenders_locked(std::uint32_t id, const RangeSlot& slot) {
  const Range& r = ranges_.slot(id);
  std::vector<GradStats> stats(r.spec.segments.size());
  const auto* words = reinterpret_cast<std::uint64_t*>(segment_stats_[id].get());
  auto* copy = reinterpret_cast<std::uint64_t*>(stats.data());
  for (std::size_t i = 0; words != nullptr && i < stats.size() * sizeof(GradStats) / sizeof *copy; ++i) {
    copy[i] = std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(words[i]))
                  .load(std::memory_order_acquire);  // before the look at the step below
  }
  if (!still_in_step_locked()) {
    // The next step's scans have begun to write there: what the table itself says is left.
    std::fill(stats.begin(), stats.end(), GradStats{});
    const auto first = static_cast<std::size_t>(slot.first_bad_segment);
    if (first < stats.size()) stats[first] = slot.local;
  }
  const std::lock_guard lock(records_mutex_);
  for (std::size_t i = 0; i < stats.size(); ++i) {
    if (stats[i].inf == 0 && stats[i].nan == 0) continue;
    stepgate_offender o{};
    o.size = sizeof o;
    o.step = table_taken_;
    o.rank = options_.rank;
    o.has_nan = stats[i].nan != 0;
    o.inf = stats[i].inf;
    o.nan = stats[i].nan;
    copy_text(o.range, r.spec.name);
    copy_text(o.parameter, r.spec.parameters[i]);
    if (offenders_.size() == kOffendersKept) offenders_.pop_front();
    offenders_.push_back(o);
    if (!options_.configuration.plane) continue;
    if (for_plane_.size() < kOffendersForPlane) {
      for_plane_.push_back(o);
    } else {
      ++plane_lost_;
    }
  }
}

void Gate::take_offenders(std::vector<stepgate_offender>* out, std::uint64_t* lost) {
  const std::lock_guard lock(records_mutex_);
  out->insert(out->end(), for_plane_.begin(), for_plane_.end());
  for_plane_.clear();
  *lost += std::exchange(plane_lost_, 0);
}

std::uint64_t Gate::failures() const {
  const metrics::Counters c = counters_.read();
  return std::accumulate(c.plugin_errors.begin(), c.plugin_errors.end(), std::uint64_t{0});
}

void Gate::take_records_locked() {
  std::array<StepRecord, 16> records;
  for (;;) {
    std::uint64_t lost = 0;
    const std::size_t n = copy_steps(records_taken_, records.data(), records.size(), &lost);
    records_taken_ += lost;
    for (std::size_t i = 0; i < n; ++i) {
      const StepRecord& r = records[i];
      records_taken_ = r.sequence;
      if (r.decision.skip) log_skip_locked(r);
      if (r.decision.diverged) log_divergence_locked(r);
      if (r.decision.released && !release_counted_) count_release_locked(r);
    }
    if (n == 0) return;
  }
}

void Gate::count_release_locked(const StepRecord& r) {
  static_assert(
      static_cast<int>(ReleaseCause::kDivergence) == static_cast<int>(metrics::ReleaseReason::kDivergence),
      "the two name the same causes");
  release_counted_ = true;
  const auto why = static_cast<metrics::ReleaseReason>(r.release_cause);
  counters_.released(why);
  log_.error("step " + std::to_string(r.step) + ": all ranks are released, reason " +
             metrics::kReleaseReasonNames[static_cast<std::size_t>(why)] +
             "; steps are skipped until the job activates enforce again or leaves it");
}

// One line per skipped step, on the rank that is to blame, or on rank 0 where nobody in particular is.
void Gate::log_skip_locked(const StepRecord& r) {
  const Decision& d = r.decision;
  const bool mine = d.offender == options_.rank;
  if (!mine && !(d.offender < 0 && options_.rank == 0)) return;
  std::string text = "step " + std::to_string(r.step) + " skipped on all ranks: " + reason_name(d.reason);
  if (d.offender >= 0) text += ", rank " + std::to_string(d.offender);
  if (d.offender == kOffenderSeveral) text += ", several ranks";
  if (d.offender == kOffenderReduction) text += ", in the reduction itself";
  const std::lock_guard lock(records_mutex_);
  for (const stepgate_offender& o : offenders_) {
    if (mine && o.step == r.step) text += std::string(", parameter ") + o.parameter;
  }
  log_.warn(text);
}

// On the odd rank itself, where it can be told, and on rank 0.
void Gate::log_divergence_locked(const StepRecord& r) {
  const std::int32_t odd = r.decision.odd_rank;
  if (options_.rank != 0 && options_.rank != odd) return;
  log_.warn("step " + std::to_string(r.step) +
            ": ranks hold different state (scaler, or the last decision); " +
            (odd >= 0 ? "rank " + std::to_string(odd) + " is the odd one" : "which one cannot be told") +
            (r.decision.skip ? "" : "; the step goes on, as STEPGATE_DIVERGENCE=report wants it"));
}

metrics::Counters Gate::counters() const {
  return counters_.read(services_.misses_of);
}

}  // namespace stepgate::gate

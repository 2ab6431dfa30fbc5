// Gate: what happened, for the publisher, the C API and the log.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "plugin/core/gate.h"

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
  id.rank = options_.rank;
  id.world = options_.world;
  id.local_rank = static_cast<int>(c.local_rank);
  id.job_name = c.job_name;
  id.run_id = c.run_id;
  id.device = device_.name();
  id.version = kVersionText;
  const std::lock_guard lock(records_mutex_);
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

// Runs once the step's records are visible to the host.
void Gate::after_step_locked() noexcept {
  try {
    const GateBlock& g = *mirror_.get();
    collect_ranges_locked();
    for (std::uint32_t set = 0; set < kMaxSets; ++set) {
      if (!(decided_ & (1u << set))) continue;
      const Decision& d = g.sets[set].decision;
      ++(d.skip ? skipped_steps_ : applied_steps_);
      if (d.skip) log_skip_locked(d);
    }
    if (g.released && !release_counted_) count_release_locked(g);
  } catch (...) {
    counters_.error(metrics::Stage::kPublish);
  }
}

void Gate::count_release_locked(const GateBlock& g) noexcept {
  release_counted_ = true;
  using metrics::ReleaseReason;
  ReleaseReason why = ReleaseReason::kDivergence;
  for (std::uint32_t set = 0; set < kMaxSets; ++set) {
    if (!(decided_ & (1u << set))) continue;
    const double* sums = g.sets[set].summary;
    if (sums[kSumUndecided] != 0) why = ReleaseReason::kUndecided;
    if (sums[kSumContributors] != g.policy.world) why = ReleaseReason::kContributors;
    if (sums[kSumDegrade] != 0) why = ReleaseReason::kDegraded;
  }
  counters_.released(why);
  log_.error("step " + std::to_string(step_) + ": all ranks are released, reason " +
             metrics::kReleaseReasonNames[static_cast<std::size_t>(why)] +
             "; steps are skipped until the job activates enforce again or leaves it");
}

void Gate::collect_ranges_locked() noexcept {
  std::vector<RangeRecord> fresh;
  fresh.reserve(std::size_t{2} * ranges_.slots());
  for (std::uint32_t i = 0; i < ranges_.slots(); ++i) {
    const Range& r = ranges_.slot(i);
    const RangeSlot& s = slots_mirror_.get()[kAnonymousSlots + i];
    RangeRecord record;
    record.step = step_;
    record.range = i;
    if (r.declared && r.covered) {
      record.phase = static_cast<std::uint32_t>(ScanPhase::kReduced);
      record.stats = s.reduced;
      fresh.push_back(record);
    }
    if (!r.attributed) continue;
    record.phase = static_cast<std::uint32_t>(ScanPhase::kLocal);
    record.stats = s.local;
    record.first_bad_segment = s.first_bad_segment;
    fresh.push_back(record);
    if (s.local.inf != 0 || s.local.nan != 0) collect_offenders_locked(i);
  }
  const std::lock_guard lock(records_mutex_);
  range_records_ = std::move(fresh);
  published_params_ = mirror_.get()->params;
}

void Gate::collect_offenders_locked(std::uint32_t id) noexcept {
  const Range& r = ranges_.slot(id);
  const GradStats* stats = segment_stats_[id].get();
  const std::lock_guard lock(records_mutex_);
  for (std::size_t i = 0; i < r.spec.segments.size(); ++i) {
    if (stats[i].inf == 0 && stats[i].nan == 0) continue;
    stepgate_offender o{};
    o.size = sizeof o;
    o.step = step_;
    o.rank = options_.rank;
    o.has_nan = stats[i].nan != 0;
    o.inf = stats[i].inf;
    o.nan = stats[i].nan;
    copy_text(o.range, r.spec.name);
    copy_text(o.parameter, r.spec.parameters[i]);
    if (offenders_.size() == kOffendersKept) offenders_.pop_front();
    offenders_.push_back(o);
  }
}

// One line per skipped step, on the rank that is to blame, or on rank 0 where nobody in particular is.
void Gate::log_skip_locked(const Decision& d) noexcept {
  const bool mine = d.offender == options_.rank;
  if (!mine && !(d.offender < 0 && options_.rank == 0)) return;
  std::string text = "step " + std::to_string(step_) + " skipped on all ranks: " + reason_name(d.reason);
  if (d.offender >= 0) text += ", rank " + std::to_string(d.offender);
  if (d.offender == kOffenderSeveral) text += ", several ranks";
  if (d.offender == kOffenderReduction) text += ", in the reduction itself";
  const std::lock_guard lock(records_mutex_);
  for (const stepgate_offender& o : offenders_) {
    if (mine && o.step == step_) text += std::string(", parameter ") + o.parameter;
  }
  log_.warn(text);
}

}  // namespace stepgate::gate

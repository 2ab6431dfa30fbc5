// Gate: groups and declared ranges.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "plugin/core/gate.h"
#include "plugin/core/last_error.h"
#include "plugin/core/memory_reach.h"

namespace stepgate::gate {

stepgate_status Gate::add_group(ncclComm_t comm) {
  const NcclTable* table = services_.table_of(comm);
  if (table == nullptr && services_.unhooked != nullptr) services_.unhooked("stepgate_add_group");
  if (table == nullptr || table->AllReduce == nullptr || table->CommCount == nullptr) {
    return fail(STEPGATE_INVALID,
                "stepgate_add_group: no hook has seen this communicator; it must be created through the "
                "NCCL functions that the plugin intercepts (`stepgate check --pid` says why they are not)");
  }
  int version = 0;
  int world = 0;
  services_.enter_nccl();
  if (table->GetVersion != nullptr) table->GetVersion(&version);
  const ncclResult_t counted = table->CommCount(comm, &world);
  services_.leave_nccl();
  if (counted != ncclSuccess) {
    return fail(STEPGATE_INVALID, "stepgate_add_group: ncclCommCount returned " +
                                      std::to_string(static_cast<int>(counted)) + " for this communicator");
  }
  const std::lock_guard lock(mutex_);
  if (groups_.has(comm)) {
    return fail(STEPGATE_INVALID, "stepgate_add_group: the communicator is in the gate's list already");
  }
  if (groups_.full()) {
    return fail(STEPGATE_INVALID, "stepgate_add_group: the gate has " + std::to_string(kMaxGroups) +
                                      " groups already; allowed: at most " + std::to_string(kMaxGroups));
  }
  polls_->renew(comm);
  groups_.add(comm, table, world);
  known_locked(comm, false);
  const std::lock_guard records(records_mutex_);
  const int major = version / 10000, minor = version / 100 % 100, patch = version % 100;
  nccl_version_ = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  return STEPGATE_OK;
}

stepgate_status Gate::remove_group(ncclComm_t comm) {
  const std::lock_guard lock(mutex_);
  if (!groups_.remove(comm)) {
    return fail(STEPGATE_INVALID, "stepgate_remove_group: the communicator is not in the gate's list");
  }
  return STEPGATE_OK;
}

// The pointer may come back as another communicator: nothing of it may stay.
void Gate::comm_retired(ncclComm_t comm) noexcept {
  polls_->retire(comm);
  mutex_.retire(comm);
}

void Gate::forget_comm_locked(ncclComm_t comm) noexcept {
  groups_.remove(comm);
  std::erase(known_, comm);
  forget_pending_locked(comm);
}

stepgate_status Gate::declare_range(RangeSpec spec, std::uint32_t* id) {
  if (const stepgate_status bad = check_unscale(spec); bad != STEPGATE_OK) return bad;
  if (const stepgate_status bad = check_memory(spec); bad != STEPGATE_OK) return bad;
  const BeforeReplays settled(*this);
  const std::lock_guard lock(mutex_);
  stepgate_status why = STEPGATE_OK;
  if (!controllable_locked("stepgate_declare_range", &why)) return why;
  const std::string name = spec.name;
  const std::size_t segments = spec.segments.size();
  std::string error;
  DeviceBuffer<GradStats> stats;
  if (segments != 0 && !stats.allocate(device_, segments, device::Memory::kMapped)) {
    return fail(STEPGATE_FAILED, "range '" + name + "': " + device_.last_error());
  }
  if (!ranges_.declare(std::move(spec), id, &error)) return fail(STEPGATE_INVALID, error);
  ranges_.slot(*id).since = begun_steps_locked() + (phase_ == Phase::kIdle ? 1 : 0);
  if (segment_stats_.size() < ranges_.slots()) segment_stats_.resize(ranges_.slots());
  segment_stats_[*id] = std::move(stats);
  reserve_scratch_locked();
  widen_span_locked(ranges_.slot(*id).spec);
  const std::uint32_t slots = kAnonymousSlots + ranges_.slots();
  put_locked(&block_.get()->slots, &slots, sizeof slots);
  write_slot(*id);
  prepare_scans(*id);
  const std::lock_guard records(records_mutex_);
  if (range_names_.size() <= *id) range_names_.resize(*id + 1);
  range_names_[*id] = name;
  return STEPGATE_OK;
}

std::string Gate::declared_name(const void* data, std::uint64_t bytes) {
  if (!within_span(data, bytes)) return "";
  const std::lock_guard lock(mutex_);
  std::vector<RangeTable::Hit> hits;
  ranges_.touching(data, bytes, true, &hits);
  return hits.size() == 1 && hits[0].inside ? ranges_.slot(hits[0].id).spec.name : "";
}

void Gate::widen_span_locked(const RangeSpec& spec) noexcept {
  for (const device::Segment& s : spec.segments) {
    const auto begin = reinterpret_cast<std::uintptr_t>(s.data);
    const std::uintptr_t end = begin + s.count * element_size(spec.type);
    if (s.count == 0) continue;
    if (begin < span_begin_.load(std::memory_order_relaxed)) span_begin_ = begin;
    if (end > span_end_.load(std::memory_order_relaxed)) span_end_ = end;
  }
}

// Steps enqueue from these lists; they grow here and not there.
void Gate::reserve_scratch_locked() {
  std::size_t segments = 0;
  for (std::uint32_t i = 0; i < ranges_.slots(); ++i) segments += ranges_.slot(i).spec.segments.size();
  applies_.reserve(segments);
  shifted_.reserve(segments);
  scans_.reserve(ranges_.slots());
  hits_.reserve(ranges_.slots());
}

bool Gate::captured() const {
  if (observations_.captured()) return true;
  const std::lock_guard lock(mutex_);
  return captured_;
}

// Whether scans may read there. The host device does not know of device memory: reading that would end
// the job, so the driver is asked.
bool Gate::readable(const void* p) noexcept {
  return reads(device_, p);
}

// The same for a send buffer, once per address: a job reduces from the same few for its whole life, and
// memory of a device and of the host never trade addresses.
bool Gate::readable_send(const void* p) noexcept {
  const void*& seen = seen_sends_[(reinterpret_cast<std::uintptr_t>(p) >> 8) % seen_sends_.size()];
  if (seen == p) return true;
  if (!readable(p)) return false;
  seen = p;
  return true;
}

// What a scan multiplies must hold the product, and nobody may add to it afterwards.
stepgate_status Gate::check_unscale(const RangeSpec& spec) const {
  if (options_.policy.unscale != UnscaleMode::kInHook || !spec.result) return STEPGATE_OK;
  if (spec.type != ElementType::kFp32) {
    return fail(STEPGATE_INVALID,
                "range '" + spec.name + "': type " + element_type_name(spec.type) +
                    " cannot be unscaled in the hook; allowed with unscale = in_hook: fp32");
  }
  if (!spec.is_final) {
    return fail(STEPGATE_INVALID,
                "range '" + spec.name +
                    "': STEPGATE_RANGE_NOT_FINAL cannot be unscaled in the hook; allowed with unscale = "
                    "in_hook: ranges whose values at the reduction are final");
  }
  return STEPGATE_OK;
}

stepgate_status Gate::check_memory(const RangeSpec& spec) {
  for (const device::Segment& s : spec.segments) {
    if (s.count == 0 || readable(s.data)) continue;
    if (device_.immediate()) {
      return fail(STEPGATE_UNSUPPORTED,
                  "range '" + spec.name +
                      "' lies in device memory, and this gate reads host memory; create the gate where the "
                      "job's CUDA context is current, or with STEPGATE_DEVICE=cuda");
    }
    return fail(STEPGATE_UNSUPPORTED,
                "range '" + spec.name + "' lies in memory that the gate's device (" + device_.name() +
                    ") cannot read: host memory, or another device's; declare it in a gate of its own, made "
                    "where that device is current (host memory: with STEPGATE_DEVICE=host)");
  }
  return STEPGATE_OK;
}

// Lets the device set its scratch aside now, so that no step has to. A refusal only means that scans of
// this range borrow from the device's pool.
void Gate::prepare_scans(std::uint32_t id) {
  const RangeSpec& spec = ranges_.slot(id).spec;
  RangeSlot& slot = slots_.get()[kAnonymousSlots + id];
  device::Scan job;
  job.segments = spec.segments;
  job.stored = spec.type;
  job.compute = spec.compute;
  job.total = &slot.reduced;
  device_.prepare(job);
  job.total = &slot.local;
  job.per_segment = segment_stats_[id].get();
  job.first_bad = &slot.first_bad_segment;
  device_.prepare(job);
}

// Puts what the host knows of a range where the folds read it; its statistics start at zero.
void Gate::write_slot(std::uint32_t id) {
  const Range& r = ranges_.slot(id);
  RangeSlot s;
  s.factor = r.spec.factor;
  s.largest_storable = largest_finite(r.spec.type);
  s.counted = r.spec.counted;
  s.live = r.declared && r.spec.result && !r.absent;
  // Of no set once it is retired: a graph may go on scanning into it.
  s.set = r.declared ? r.spec.set : kMaxSets;
  s.reduced_step = kNeverScanned;
  put_locked(slots_.get() + kAnonymousSlots + id, &s, sizeof s);
}

// A slot that the device does not know is a gradient that nobody counts.
void Gate::put_locked(void* to, const void* from, std::size_t bytes) noexcept {
  const bool written = device_.copy_in(control_, to, from, bytes) == device::Code::kOk;
  poked_locked();
  if (written) return;
  counters_.error(metrics::Stage::kSummarize);
  broken_ = true;
}

stepgate_status Gate::retire_range(std::uint32_t id) {
  const BeforeReplays settled(*this);
  const std::lock_guard lock(mutex_);
  stepgate_status why = STEPGATE_OK;
  if (!controllable_locked("stepgate_retire_range", &why)) return why;
  if (!ranges_.retire(id)) {
    return fail(STEPGATE_INVALID, "stepgate_retire_range: no range has id " + std::to_string(id));
  }
  retired_locked(id);
  return STEPGATE_OK;
}

stepgate_status Gate::retire_all() {
  const BeforeReplays settled(*this);
  const std::lock_guard lock(mutex_);
  stepgate_status why = STEPGATE_OK;
  if (!controllable_locked("stepgate_retire_all", &why)) return why;
  ranges_.retire_all();
  for (std::uint32_t i = 0; i < ranges_.slots(); ++i) retired_locked(i);
  return STEPGATE_OK;
}

void Gate::retired_locked(std::uint32_t id) {
  // Declared again in this step, it would be multiplied again.
  if (phase_ != Phase::kIdle && ranges_.slot(id).unscaled) drop_veto_ = true;
  write_slot(id);
  if (ranges_.slot(id).graph && segment_stats_[id].get() != nullptr) {
    kept_stats_.push_back(std::move(segment_stats_[id]));
  }
}

stepgate_status Gate::range_absent(std::uint32_t id, bool absent) {
  const BeforeReplays settled(*this);
  const std::lock_guard lock(mutex_);
  stepgate_status why = STEPGATE_OK;
  if (!controllable_locked("stepgate_range_absent", &why)) return why;
  Range* r = ranges_.find(id);
  if (r == nullptr) {
    return fail(STEPGATE_INVALID, "stepgate_range_absent: no range has id " + std::to_string(id));
  }
  r->absent = absent;
  const std::uint32_t live = r->spec.result && !absent;
  put_locked(&slots_.get()[kAnonymousSlots + id].live, &live, sizeof live);
  return STEPGATE_OK;
}

}  // namespace stepgate::gate

// Gate: groups and declared ranges.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "plugin/core/gate.h"
#include "plugin/core/last_error.h"
#include "plugin/core/pointer_kind.h"

namespace stepgate::gate {

stepgate_status Gate::add_group(ncclComm_t comm) {
  const NcclTable* table = services_.table_of(comm);
  if (table == nullptr || table->AllReduce == nullptr || table->CommCount == nullptr) {
    return fail(STEPGATE_INVALID,
                "stepgate_add_group: no hook has seen this communicator; it must be created through the "
                "NCCL functions that the plugin intercepts");
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
  if (find_group(comm) != groups_.end()) {
    return fail(STEPGATE_INVALID, "stepgate_add_group: the communicator is in the gate's list already");
  }
  groups_.push_back({comm, world});
  const std::lock_guard records(records_mutex_);
  const int major = version / 10000, minor = version / 100 % 100, patch = version % 100;
  nccl_version_ = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  return STEPGATE_OK;
}

std::vector<Gate::Group>::iterator Gate::find_group(ncclComm_t comm) {
  return std::find_if(groups_.begin(), groups_.end(), [comm](const Group& g) { return g.comm == comm; });
}

stepgate_status Gate::remove_group(ncclComm_t comm) {
  const std::lock_guard lock(mutex_);
  const auto it = find_group(comm);
  if (it == groups_.end()) {
    return fail(STEPGATE_INVALID, "stepgate_remove_group: the communicator is not in the gate's list");
  }
  groups_.erase(it);
  return STEPGATE_OK;
}

// The pointer may come back as another communicator: nothing of it may stay.
void Gate::comm_retired(ncclComm_t comm) noexcept {
  const std::lock_guard lock(mutex_);
  const auto it = find_group(comm);
  if (it != groups_.end()) groups_.erase(it);
}

stepgate_status Gate::declare_range(RangeSpec spec, std::uint32_t* id) {
  for (const device::Segment& s : spec.segments) {
    if (s.count == 0 || !is_device_only(s.data)) continue;
    return fail(STEPGATE_UNSUPPORTED, "range '" + spec.name +
                                          "' lies in device memory; this release reads host "
                                          "memory only, so the range is not watched");
  }
  const std::lock_guard lock(mutex_);
  const std::string name = spec.name;
  const std::size_t segments = spec.segments.size();
  std::string error;
  DeviceBuffer<GradStats> stats;
  if (segments != 0 && !stats.allocate(device_, segments, device::Memory::kMapped)) {
    return fail(STEPGATE_FAILED, "range '" + name + "': " + device_.last_error());
  }
  if (!ranges_.declare(std::move(spec), id, &error)) return fail(STEPGATE_INVALID, error);
  if (segment_stats_.size() < ranges_.slots()) segment_stats_.resize(ranges_.slots());
  segment_stats_[*id] = std::move(stats);
  write_slot(*id);
  prepare_scans(*id);
  const std::lock_guard records(records_mutex_);
  if (range_names_.size() <= *id) range_names_.resize(*id + 1);
  range_names_[*id] = name;
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
  s.set = r.spec.set;
  put_locked(slots_.get() + kAnonymousSlots + id, &s, sizeof s);
}

// A slot that the device does not know is a gradient that nobody counts.
void Gate::put_locked(void* to, const void* from, std::size_t bytes) noexcept {
  if (device_.copy_in(last_stream_, to, from, bytes) == device::Code::kOk) return;
  counters_.error(metrics::Stage::kSummarize);
  broken_ = true;
}

stepgate_status Gate::retire_range(std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  if (!ranges_.retire(id)) {
    return fail(STEPGATE_INVALID, "stepgate_retire_range: no range has id " + std::to_string(id));
  }
  write_slot(id);
  return STEPGATE_OK;
}

stepgate_status Gate::retire_all() {
  const std::lock_guard lock(mutex_);
  ranges_.retire_all();
  for (std::uint32_t i = 0; i < ranges_.slots(); ++i) write_slot(i);
  return STEPGATE_OK;
}

stepgate_status Gate::range_absent(std::uint32_t id, bool absent) {
  const std::lock_guard lock(mutex_);
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

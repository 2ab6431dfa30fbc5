// Observer: the hooks.
#include "plugin/core/observe/observer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "collectives/core/compute_type.h"
#include "plugin/core/nccl_types.h"

namespace stepgate::gate {
namespace {

using device::CaptureState;
using device::Code;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

metrics::ReductionOp op_of(OpKind k) {
  return static_cast<metrics::ReductionOp>(k);
}

}  // namespace

Observer::Observer(ObserverOptions options, device::Device& device)
    : options_(std::move(options)),
      rule_{options_.configuration.observe_min_count, options_.configuration.observe_ranks,
            options_.configuration.observe_comm},
      device_(device),
      pool_(device) {
  // Before the job is busy; what fails here is met again, and counted, at the first range.
  scales_.allocate(device_, 2 * kStepsInFlight, device::Memory::kMapped);
  pool_.grow();
}

bool Observer::observable(const Reduction& op) noexcept {
  return looks_like_gradient(op, rule_) && device_.capture_state(op.stream) == CaptureState::kNone;
}

bool Observer::before(const Reduction& op) noexcept {
  if (options_.configuration.attribution != Attribution::kOn) return true;
  if (!mine(op)) return false;
  const bool whole = op.kind != OpKind::kReduceScatter || op.world > 0;
  if (!whole || !observable(op) || !reads(device_, op.send)) return true;
  const std::lock_guard lock(mutex_);
  forget_retired_locked();
  // A call whose end was never told begins anew.
  const std::uint32_t known = steps_.find(op);
  if (known < ranges_.size()) ranges_[known].begun = false;
  const std::uint32_t id = enter_locked(op);
  if (id == kNoInferredRange) return true;
  ranges_[id].local = scan_locked(op, id, ScanPhase::kLocal);
  return true;
}

bool Observer::after(const Reduction& op, Outcome outcome) noexcept {
  if (!mine(op)) return false;
  if (outcome == Outcome::kPending && observable(op) && keep_pending(op)) return true;
  const bool look = outcome == Outcome::kLaunched && observable(op);
  if (!look) counters_.passed(op_of(op.kind));
  // Without attribution nothing has begun that would have to be undone.
  if (!look && options_.configuration.attribution != Attribution::kOn) return true;
  const std::lock_guard lock(mutex_);
  forget_retired_locked();
  if (look) {
    launched_locked(op);
  } else if (const std::uint32_t id = steps_.find(op); id < ranges_.size()) {
    ranges_[id].begun = false;
  }
  return true;
}

// False: there is no room. An older call that fills the same memory has been overtaken: nobody asked for it.
bool Observer::keep_pending(const Reduction& op) noexcept {
  const std::lock_guard lock(pending_mutex_);
  std::erase_if(pending_, [&](const Pending& p) {
    const bool overtaken = p.op.comm == op.comm && p.op.recv == op.recv;
    if (overtaken) counters_.passed(op_of(p.op.kind));
    return overtaken;
  });
  if (pending_.size() == kPending) return false;
  try {
    pending_.push_back({op, std::this_thread::get_id()});
  } catch (...) {
    return false;
  }
  return true;
}

// The range's number, its watch begun for this call; kNoInferredRange: it is not looked at.
std::uint32_t Observer::enter_locked(const Reduction& op) noexcept {
  try {
    const std::uint32_t known = steps_.find(op);
    if (known != kNoInferredRange && ranges_[known].begun) return known;
    bool begins = false;
    const std::uint32_t id = steps_.meet(op, &begins);
    if (id == kNoInferredRange) return id;
    if (begins) begin_step_locked(op.stream);
    if (id >= ranges_.size() && !add_range_locked(id, op)) return kNoInferredRange;
    Range& r = ranges_[id];
    if (r.turnover != steps_.turnover(id)) name_range_locked(id, op);
    if (r.watch == nullptr || r.watch->begin(op.stream) != Code::kOk) {
      failed_locked(metrics::Stage::kScan);
      return kNoInferredRange;
    }
    r.begun = true;
    r.local = false;
    return id;
  } catch (...) {  // no memory
    failed_locked(metrics::Stage::kHook);
    return kNoInferredRange;
  }
}

// A step with a gradient that nobody saw has no norm: it is told as lost.
void Observer::failed_locked(metrics::Stage stage) noexcept {
  counters_.error(stage);
  if (!in_flight_.empty()) in_flight_.back().lost = true;
}

bool Observer::add_range_locked(std::uint32_t id, const Reduction& op) {
  ranges_.resize(id + std::size_t{1});
  ranges_[id].watch = pool_.add();
  name_range_locked(id, op);
  return ranges_[id].watch != nullptr;
}

void Observer::name_range_locked(std::uint32_t id, const Reduction& op) {
  const std::string declared =
      options_.declared_name ? options_.declared_name(op.recv, op.count * element_bytes(op.type)) : "";
  ranges_[id].turnover = steps_.turnover(id);
  const std::lock_guard lock(records_mutex_);
  if (names_.size() <= id) names_.resize(id + std::size_t{1});
  names_[id] = declared.empty() ? steps_.name(id) : declared;
}

void Observer::begin_step_locked(device::Stream s) {
  if (!in_flight_.empty()) {
    in_flight_.back().ended = true;
    in_flight_.back().timestamp = unix_seconds();
  }
  harvest_locked();
  if (in_flight_.size() == kStepsInFlight) {  // the device is that far behind
    in_flight_.pop_front();
    lose_locked();
  }
  Step step;
  step.number = steps_.step();
  step.scaled = external_ != nullptr;
  take_scale_locked(step, s);
  in_flight_.push_back(std::move(step));
}

void Observer::take_scale_locked(Step& step, device::Stream s) noexcept {
  if (external_ == nullptr) return;
  if (!is_device_only(external_)) {
    step.scale = *const_cast<const volatile float*>(external_);
    return;
  }
  if (device_.immediate()) return;  // the host device has no way to a scale on a GPU
  float* to = scales_.get() + step.number % (2 * kStepsInFlight);
  step.scale_on_device = scales_.get() != nullptr && device_.reaches(external_) &&
                         device_.copy_out(s, to, external_, sizeof *to) == Code::kOk;
}

void Observer::launched_locked(const Reduction& op) noexcept {
  const std::uint32_t id = enter_locked(op);
  if (id == kNoInferredRange) return counters_.passed(op_of(op.kind));
  ranges_[id].begun = false;
  if (!scan_locked(op, id, ScanPhase::kReduced)) return counters_.passed(op_of(op.kind));
  counters_.scanned(op_of(op.kind));
  try {
    look_ended_locked(op, id);
  } catch (...) {  // no memory to remember the look
    failed_locked(metrics::Stage::kHook);
  }
}

bool Observer::scan_locked(const Reduction& op, std::uint32_t id, ScanPhase phase) noexcept {
  const bool local = phase == ScanPhase::kLocal;
  gate::Look look;
  look.data = local ? op.send : op.recv;
  look.count = op.count;
  if (local && op.kind == OpKind::kReduceScatter) look.count *= static_cast<std::uint64_t>(op.world);
  element_type_of(op.type, &look.stored);
  look.compute = default_compute_type(look.stored, !in_flight_.empty() && in_flight_.back().scaled);
  look.phase = phase;
  const auto start = Clock::now();
  const Code code = ranges_[id].watch->scan(op.stream, look);
  if (code != Code::kOk) {
    failed_locked(metrics::Stage::kScan);
    return false;
  }
  if (!in_flight_.empty()) in_flight_.back().seconds += seconds_since(start);
  counters_.bytes(phase, look.count * element_size(look.stored));
  return true;
}

void Observer::look_ended_locked(const Reduction& op, std::uint32_t id) {
  Range& r = ranges_[id];
  if (r.watch->finish(op.stream, CaptureState::kNone) != Code::kOk) {
    failed_locked(metrics::Stage::kPublish);
    return;
  }
  if (in_flight_.empty() || in_flight_.back().ended) return;  // no memory was to be had for the step
  in_flight_.back().looks.push_back({id, r.watch->calls(), r.local, false, {}});
  harvest_locked();
}

void Observer::settled(ncclComm_t comm) noexcept {
  Reduction op;
  while (take_pending(comm, &op)) {
    if (!observable(op)) {
      counters_.passed(op_of(op.kind));
      continue;
    }
    const std::lock_guard lock(mutex_);
    forget_retired_locked();
    launched_locked(op);
  }
}

// The next one that this thread issued on comm. What others issued there passes: they may have gone on, and
// freed what it filled, before they ask themselves.
bool Observer::take_pending(ncclComm_t comm, Reduction* op) noexcept {
  const auto me = std::this_thread::get_id();
  const std::lock_guard lock(pending_mutex_);
  std::erase_if(pending_, [&](const Pending& p) {
    const bool passes = p.op.comm == comm && p.issuer != me;
    if (passes) counters_.passed(op_of(p.op.kind));
    return passes;
  });
  const auto mine =
      std::find_if(pending_.begin(), pending_.end(), [&](const Pending& p) { return p.op.comm == comm; });
  if (mine == pending_.end()) return false;
  *op = mine->op;
  pending_.erase(mine);
  return true;
}

void Observer::comm_retired(ncclComm_t comm) noexcept {
  {
    const std::lock_guard lock(pending_mutex_);
    std::erase_if(pending_, [comm](const Pending& p) { return p.op.comm == comm; });
    try {
      retired_.push_back(comm);
    } catch (...) {
      return;  // no memory: its ranges stay until they are idle
    }
  }
  // Else the next hook does it, and that comes before anything on a communicator with the same handle.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) forget_retired_locked();
}

void Observer::forget_retired_locked() noexcept {
  const std::lock_guard lock(pending_mutex_);
  for (const ncclComm_t comm : retired_) steps_.comm_retired(comm);
  retired_.clear();
}

void Observer::external_scale(const float* scale) noexcept {
  const std::lock_guard lock(mutex_);
  external_ = scale;
}

void Observer::close() noexcept {
  const std::lock_guard lock(mutex_);
  if (in_flight_.empty() || in_flight_.back().ended) return;
  in_flight_.back().ended = true;
  in_flight_.back().timestamp = unix_seconds();
}

}  // namespace stepgate::gate

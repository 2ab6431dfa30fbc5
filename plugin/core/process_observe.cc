// Process: observing a job that has nobody decide: an Observer per device that its reductions lie on.
#include <algorithm>
#include <memory>

#include "plugin/core/host.h"
#include "plugin/core/last_error.h"
#include "plugin/core/observe/back_off.h"
#include "plugin/core/process.h"

namespace stepgate::gate {
namespace {

constexpr char kObserverName[] = "observed";  // label gate, where the job has gates as well

// Reductions of this thread that no observer claims, in memory that no device of ours reads, say. A thread's
// device may change at any time, but to ask a driver at each of them would be dear: ever more rarely.
thread_local BackOff unclaimed;

}  // namespace

void Process::agreements_changed(bool left) noexcept {
  const std::shared_lock lock(gates_mutex_);
  agreements_changed_locked(left);
}

// Gates of several threads may agree and leave at once: what holds is what the gates say, not who came last.
void Process::agreements_changed_locked(bool left) noexcept {
  const std::lock_guard looking(observing_mutex_);
  left_ = left_ || left;
  const bool enforced =
      std::any_of(gates_.begin(), gates_.end(), [](const auto& g) { return g->enforcing(); });
  observing_.store(left_ && !enforced && configuration_.metrics && !shut_, std::memory_order_relaxed);
}

void Process::before_observed(const Reduction& op) noexcept {
  const std::shared_lock lock(gates_mutex_);
  for (const auto& o : observers_) {
    if (o->before(op)) return;
  }
}

void Process::after_observed(const Reduction& op, Outcome outcome) noexcept {
  if (op.recv == nullptr) return;  // a reduction to another rank leaves nothing here
  for (int tries = 0; tries < 2; ++tries) {
    {
      const std::shared_lock lock(gates_mutex_);
      for (const auto& o : observers_) {
        if (o->after(op, outcome)) return;
      }
    }
    if (tries != 0 || !unclaimed.look() || !observe_on(-1)) return;
  }
}

metrics::Identity Process::observer_identity(const device::Device& device) const {
  metrics::Identity id;
  id.gate = kObserverName;
  id.rank = static_cast<int>(configuration_.rank);
  id.world = static_cast<int>(configuration_.world);
  id.local_rank = static_cast<int>(configuration_.local_rank);
  id.host = host_name();
  id.job_name = configuration_.job_name;
  id.run_id = configuration_.run_id;
  id.torchelastic_restarts = configuration_.torchelastic_restarts;
  id.slurm_restarts = configuration_.slurm_restarts;
  id.device = device.name();
  id.rule = scaler_rule_name(ScalerRule::kNone);
  id.version = kVersionText;
  return id;
}

std::size_t Process::observed_devices() const {
  const std::shared_lock lock(gates_mutex_);
  return observers_.size();
}

// An observer for that device (-1: the thread's). False: there is one already, none can be had, or somebody
// holds what it takes: hooks come here, and a gate's creation waits for the device, a hook for its queue.
// Then the next reduction tries again.
bool Process::observe_on(int ordinal) noexcept {
  try {
    std::string why;
    device::Device* const device = devices_.numbered(ordinal, configuration_.device, &why);
    if (device == nullptr) {
      if (!told_no_device_.exchange(true)) log().warn("nothing is observed: " + why);
      return false;
    }
    const std::unique_lock one_at_a_time(creation_mutex_, std::try_to_lock);
    if (!one_at_a_time.owns_lock()) return false;
    const auto here = [&](const auto& o) { return &o->device() == device; };
    {
      const std::shared_lock lock(gates_mutex_);
      if (shut_ || std::any_of(observers_.begin(), observers_.end(), here)) return false;
    }
    auto made = std::find_if(made_observers_.begin(), made_observers_.end(), here);
    if (made == made_observers_.end()) {
      made_observers_.push_back(make_observer(*device));
      made = made_observers_.end() - 1;
    }
    make_publisher();
    metrics::Publisher* publisher = nullptr;
    Observer* const mine = made->get();
    {
      const std::unique_lock lock(gates_mutex_, std::try_to_lock);
      if (!lock.owns_lock() || shut_) return false;
      if (external_scale_ != nullptr) (*made)->external_scale(external_scale_);
      publisher = enter_publisher_locked();
      observers_.push_back(std::move(*made));
      made_observers_.erase(made);
    }
    if (publisher != nullptr) publisher->add_source(mine);
    unclaimed = {};
    return true;
  } catch (...) {
    return false;  // out of memory: the job runs on unseen
  }
}

std::unique_ptr<Observer> Process::make_observer(device::Device& device) {
  ObserverOptions options;
  options.configuration = configuration_;
  options.identity = observer_identity(device);
  options.misses_of = services_.misses_of;
  options.declared_name = [this](const void* data, std::uint64_t bytes) {
    std::string name;
    for (const auto& g : gates_) {
      if (name.empty()) name = g->declared_name(data, bytes);
    }
    return name;  // called from hooks, which hold gates_mutex_
  };
  return std::make_unique<Observer>(std::move(options), device);
}

stepgate_status Process::external_scale(const Gate& gate, const float* scale) {
  if (gate.enforcing()) {
    return fail(
        STEPGATE_INVALID,
        "stepgate_external_scale: this gate enforces, and its own scaler gives the scale; allowed: while "
        "it observes");
  }
  if (reinterpret_cast<std::uintptr_t>(scale) % alignof(float) != 0) {
    return fail(STEPGATE_INVALID,
                "stepgate_external_scale: scale is not aligned to its type; allowed: alignment 4, or NULL");
  }
  const std::unique_lock lock(gates_mutex_);
  external_scale_ = scale;
  scale_of_ = scale != nullptr ? &gate : nullptr;
  for (const auto& o : observers_) o->external_scale(scale);
  return STEPGATE_OK;
}

// Its caller may free the scale together with the gate.
void Process::forget_scale_locked(const Gate* gate) noexcept {
  if (scale_of_ != gate) return;
  external_scale_ = nullptr;
  scale_of_ = nullptr;
  for (const auto& o : observers_) o->external_scale(nullptr);
}

}  // namespace stepgate::gate

#include "plugin/core/process.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "plugin/core/config_names.h"
#include "plugin/core/gate_config.h"
#include "plugin/core/host.h"
#include "plugin/core/last_error.h"
#include "plugin/core/plane/transport_file.h"
#include "plugin/core/standard_streams.h"
#include "plugin/core/start_options.h"

namespace stepgate::gate {
namespace {

// A millisecond each: what hooks at work need, and no more than an exit may be held up by a hook that is
// stuck.
constexpr int kExitTries = 1000;

}  // namespace

Process::Process(const Environment& environment, const std::vector<std::string_view>& variables,
                 const ShimServices& services)
    : services_(services), pid_(::getpid()) {
  std::vector<std::string> notes;
  const bool good = read_configuration(environment, &configuration_, &configuration_error_, &notes);
  const std::vector<std::string> more = unknown_variables(variables);
  notes.insert(notes.end(), more.begin(), more.end());
  for (const std::string& note : notes) log().warn(note);
  for (const std::string& doubt : configuration_.doubts) log().warn(doubt);
  no_plane_ = plane::unsafe_ucx_environment(environment);
  left_ = configuration_.mode == Mode::kObserve;
  observing_ = good && left_ && configuration_.metrics;
  if (!good) stay_off(environment);
  if (configuration_.mode == Mode::kOff) configuration_.metrics = configuration_.plane = false;
}

// Fail open: the job runs as if the plugin were off, and the reason is on its standard error.
void Process::stay_off(const Environment& environment) {
  configuration_.mode = Mode::kOff;
  JobIdentity who;
  std::string bad_place;
  if (read_identity(environment, &who, &bad_place)) {
    configuration_.rank = who.rank;
    configuration_.world = who.world;
  }
  Log(LogLevel::kError, static_cast<int>(configuration_.rank))
      .error(configuration_error_ + "; StepGate stays off in this process");
}

bool Process::forked() const noexcept {
  return ::getpid() != pid_;
}

bool Process::active() const noexcept {
  return configuration_.mode != Mode::kOff && !forked();
}

stepgate_status Process::create_gate(const stepgate_gate_config* config, Gate** out) {
  if (!off() && services_.survey != nullptr)
    services_.survey();  // the job's communicators are mostly there by now
  GateOptions options;
  std::string error;
  if (!gate_options(config, configuration_, &options, &error)) {
    return fail(STEPGATE_INVALID, "stepgate_gate_create: " + error);
  }
  // Where this process is off, others may not be. A gate that only votes "no" lets all ranks refuse together;
  // without one, the others' vote would meet this rank's next gradient.
  if (configuration_.mode == Mode::kOff) {
    options.abstains = configuration_error_.empty() ? "STEPGATE_MODE is off" : configuration_error_;
  }
  device::Device* const device = devices_.current(configuration_.device, &error);
  if (device == nullptr) return fail(STEPGATE_FAILED, "stepgate_gate_create: " + error);
  if (!error.empty()) log().warn("gates work on host memory: " + error);
  if (device->capture_state(nullptr) != device::CaptureState::kNone) {
    return fail(STEPGATE_INVALID,
                "stepgate_gate_create: a stream is being captured; create gates outside of captures");
  }
  // The device may have to be waited for, so hooks are not held up meanwhile.
  const std::lock_guard one_at_a_time(creation_mutex_);
  {
    const std::shared_lock lock(gates_mutex_);
    options.name = free_name_locked(options.name);
  }
  std::unique_ptr<Gate> gate = Gate::create(std::move(options), *device, services_, &error);
  if (gate == nullptr) return fail(STEPGATE_FAILED, "stepgate_gate_create: " + error);
  make_publisher();
  Gate* const made = gate.get();
  metrics::Publisher* publisher = nullptr;
  {
    const std::unique_lock lock(gates_mutex_);
    publisher = enter_publisher_locked();
    start_plane_locked();
    if (plane_ != nullptr) plane_->sampler().add(made);
    gates_.push_back(std::move(gate));
  }
  made_publisher_.reset();  // it was not entered: the process is at its exit
  if (publisher != nullptr) publisher->add_source(made);
  *out = made;
  return STEPGATE_OK;
}

std::string Process::free_name_locked(const std::string& wanted) const {
  const auto taken = [&](const std::string& name) {
    return std::any_of(gates_.begin(), gates_.end(), [&](const auto& g) { return g->name() == name; });
  };
  std::string name = wanted;
  for (int i = 1; taken(name); ++i)
    name = wanted == "0" ? std::to_string(i) : wanted + "-" + std::to_string(i);
  return name;
}

// Without gates_mutex_: the page's files are read and its port is found, and no hook is held up by either.
void Process::make_publisher() {
  if (publisher_ != nullptr || made_publisher_ != nullptr || !configuration_.metrics) return;
  hold_standard_streams();
  metrics::PublisherOptions o = publisher_options(configuration_, own_folder());
  o.log = [log = log()](std::string_view line) { log.warn(std::string(line)); };
  made_publisher_ = std::make_unique<metrics::Publisher>(std::move(o));
}

metrics::Publisher* Process::enter_publisher_locked() noexcept {
  if (publisher_ == nullptr && !shut_) publisher_ = std::move(made_publisher_);
  return publisher_.get();
}

stepgate_status Process::destroy_gate(Gate* gate) {
  std::unique_ptr<Gate> mine;
  metrics::Publisher* publisher = nullptr;
  {
    const std::unique_lock lock(gates_mutex_);
    const auto it =
        std::find_if(gates_.begin(), gates_.end(), [&](const auto& g) { return g.get() == gate; });
    if (it == gates_.end())
      return fail(STEPGATE_INVALID, "stepgate_gate_destroy: not a live gate of this process");
    mine = std::move(*it);
    gates_.erase(it);
    forget_scale_locked(mine.get());
    claims_.drop_all_of(mine.get());
    agreements_changed_locked(mine->enforcing());
    if (plane_ != nullptr) plane_->sampler().remove(mine.get());
    publisher = publisher_.get();
  }
  // Without the lock, which hooks want: this waits for a poll.
  if (publisher != nullptr) publisher->remove_source(mine.get());
  if (mine->captured()) {
    const std::unique_lock lock(gates_mutex_);
    kept_.push_back(std::move(mine));
  }
  return STEPGATE_OK;
}

bool Process::owns(const Gate* gate) const noexcept {
  const std::shared_lock lock(gates_mutex_);
  return std::any_of(gates_.begin(), gates_.end(), [&](const auto& g) { return g.get() == gate; });
}

void Process::comm_created(int device) noexcept {
  if (observing()) observe_on(device);
  if (configuration_.mode != Mode::kEnforce) return;
  try {
    std::string why;
    if (devices_.numbered(device, configuration_.device, &why) == nullptr) log().warn(why);
  } catch (...) {
    // The gate's creation meets the same and says so.
  }
}

Log Process::log() const {
  return Log(configuration_.log, static_cast<int>(configuration_.rank));
}

void Process::comm_retired(ncclComm_t comm) noexcept {
  const std::shared_lock lock(gates_mutex_);
  for (const auto& g : gates_) g->comm_retired(comm);
  for (const auto& o : observers_) o->comm_retired(comm);
}

void Process::before(const Reduction& op) noexcept {
  {
    const std::shared_lock lock(gates_mutex_);
    for (const auto& g : gates_) g->before(op);
  }
  if (observing()) before_observed(op);
}

void Process::after(const Reduction& op, Outcome outcome) noexcept {
  {
    const std::shared_lock lock(gates_mutex_);
    for (const auto& g : gates_) g->after(op, outcome);
  }
  if (observing() && op.kind != OpKind::kMovement) after_observed(op, outcome);
}

void Process::settled(ncclComm_t comm) noexcept {
  const std::shared_lock lock(gates_mutex_);
  for (const auto& g : gates_) g->settled(comm);
  for (const auto& o : observers_) o->settled(comm);
}

void Process::warn(const char* text) noexcept {
  try {
    log().warn(text);
  } catch (...) {
    // Out of memory for a log line.
  }
}

std::string Process::metrics_url() const {
  const std::shared_lock lock(gates_mutex_);
  return publisher_ != nullptr ? publisher_->url() : std::string();
}

void Process::shut_down() noexcept {
  if (forked()) return;
  {
    std::unique_lock lock(gates_mutex_, std::try_to_lock);
    for (int i = 0; i < kExitTries && !lock.owns_lock(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      lock.try_lock();
    }
    if (!lock.owns_lock()) return;
    shut_ = true;
    stop_plane_locked();
    observing_ = false;
    for (const auto& o : observers_) o->close();
  }
  // It stays, and does nothing: a thread may be about to hand it a gate.
  if (publisher_ != nullptr) publisher_->stop(metrics::kStopSeconds);
  const std::unique_lock making(creation_mutex_, std::try_to_lock);
  if (making.owns_lock()) made_publisher_.reset();
}

}  // namespace stepgate::gate

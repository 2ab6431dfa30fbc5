// Process: what a process's gates share: the configuration, the device, the publisher, and the list
// of gates that hooks look through.
//
// Thread: any. Locks: gates_mutex_ (shared) guards the list and is never held across a call into
// NCCL, but hooks hold it across launches, which may wait for the device: nothing of theirs takes it
// exclusively, or waits for somebody who does. The publisher is not called under it where that may wait.
// Order: gates_mutex_, then a gate's own or observing_mutex_. Claims have a lock of their own, held across
// nothing. Lifetime: made once by the core's entry and never destroyed; shut_down() at exit ends the
// publisher. fork: a child's calls do nothing (forked()).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/publisher.h"
#include "plugin/core/claims.h"
#include "plugin/core/configuration.h"
#include "plugin/core/core_entry.h"
#include "plugin/core/devices.h"
#include "plugin/core/gate.h"
#include "plugin/core/observe/observer.h"
#include "plugin/core/plane/plane.h"

namespace stepgate::gate {

class Process {
 public:
  // environment: read once, here. variables: all that is set, "NAME=VALUE" each; of those that begin with
  // STEPGATE_ and that nothing reads, the log tells once.
  Process(const Environment& environment, const std::vector<std::string_view>& variables,
          const ShimServices& services);

  // False: mode off, a refused configuration, or a forked child. Hooks pass through then.
  bool active() const noexcept;
  // STEPGATE_MODE=off, or a configuration that was refused.
  bool off() const noexcept { return configuration_.mode == Mode::kOff; }
  bool forked() const noexcept;
  const Configuration& configuration() const { return configuration_; }
  const std::string& configuration_error() const { return configuration_error_; }

  // Registers the gate with hooks and publisher. A name that is taken gets a number.
  stepgate_status create_gate(const stepgate_gate_config* config, Gate** out);
  stepgate_status destroy_gate(Gate* gate);
  // process_ranges.cc: as the gate's own; but memory that one of two gates multiplies in the hook belongs to
  // one of them alone.
  stepgate_status declare_range(Gate& gate, RangeSpec spec, std::uint32_t* id);
  stepgate_status retire_range(Gate& gate, std::uint32_t id);
  stepgate_status retire_all(Gate& gate);
  // Whether it is a live gate of this process; the C API asks before it touches a handle.
  bool owns(const Gate* gate) const noexcept;

  // The device (-1: the thread's) is made ready, so that no gate has to load kernels while a stream is busy.
  void comm_created(int device) noexcept;
  void comm_retired(ncclComm_t comm) noexcept;
  void before(const Reduction& op) noexcept;
  void after(const Reduction& op, Outcome outcome) noexcept;
  void settled(ncclComm_t comm) noexcept;
  void warn(const char* text) noexcept;

  // On how many devices reductions are, or were, looked at.
  std::size_t observed_devices() const;

  // The scale of the job's own scaler, for what is observed; until NULL, or the gate's end.
  stepgate_status external_scale(const Gate& gate, const float* scale);
  // Called after whatever may have begun or ended a gate's agreement. left: its rank has none now.
  void agreements_changed(bool left) noexcept;
  // Whether reductions are looked at beside the gates: in mode observe, and in mode enforce once a gate has
  // left its agreement or could not get one, while no gate of the process has one.
  bool observing() const noexcept { return observing_.load(std::memory_order_relaxed); }

  std::string metrics_url() const;
  // Of all ranks, in one step (0: the newest that has any). *count: in, room; out, written.
  stepgate_status job_offenders(const Gate& gate, std::uint64_t step, stepgate_offender* list,
                                std::size_t* count) const;
  // At exit, in the process that made it: the page goes away, the file_sd target is removed. Where a hook
  // is stuck in a launch, or is what called exit(), they stay: the process ends all the same.
  void shut_down() noexcept;

 private:
  void stay_off(const Environment& environment);
  Log log() const;
  void make_publisher();  // creation_mutex_ is held
  metrics::Publisher* enter_publisher_locked() noexcept;
  void start_plane_locked();
  void stop_plane_locked() noexcept;
  std::string free_name_locked(const std::string& wanted) const;
  // process_observe.cc
  void agreements_changed_locked(bool left) noexcept;
  bool observe_on(int ordinal) noexcept;
  std::unique_ptr<Observer> make_observer(device::Device& device);
  metrics::Identity observer_identity(const device::Device& device) const;
  void before_observed(const Reduction& op) noexcept;
  void after_observed(const Reduction& op, Outcome outcome) noexcept;
  void forget_scale_locked(const Gate* gate) noexcept;

  const ShimServices services_;
  const pid_t pid_;
  Configuration configuration_;
  std::string configuration_error_;
  Devices devices_;
  std::mutex creation_mutex_;  // taken before gates_mutex_
  mutable std::shared_mutex gates_mutex_;
  std::vector<std::unique_ptr<Gate>> gates_;
  std::vector<std::unique_ptr<Gate>> kept_;  // destroyed, but a captured graph may still use their memory
  std::vector<std::unique_ptr<Observer>> observers_;
  // Of devices that a hook could not enter into the list yet; creation_mutex_.
  std::vector<std::unique_ptr<Observer>> made_observers_;
  const float* external_scale_ = nullptr;
  const Gate* scale_of_ = nullptr;
  Claims claims_;
  std::mutex observing_mutex_;  // so that of two changes the later one looks last
  bool left_ = false;           // some rank here had no agreement at some time; observing_mutex_
  std::atomic<bool> observing_{false};
  std::atomic<bool> told_no_device_{false};
  // Set once, under both mutexes, and never replaced: who has read the pointer may use it without either.
  std::unique_ptr<metrics::Publisher> publisher_;
  std::unique_ptr<metrics::Publisher> made_publisher_;  // not entered yet; creation_mutex_
  std::string no_plane_;  // why UCX may not be loaded in this process; "" it may
  bool plane_refused_ = false;
  std::unique_ptr<plane::Plane> plane_;
  bool shut_ = false;
};

}  // namespace stepgate::gate

// Observer: the gradients of a job that declares none, on one device. Reads what hooked reductions leave
// behind, on the job's own streams, and publishes it by inferred steps. It writes nothing of the job's, makes
// no collective and no communicator, and no stream of the job waits for anything of its.
//
//   job's threads:     before() -> the job's call -> after()
//   publisher thread:  the RecordSource half
//
// Threads: hooks from any, publisher beside them. Locks: mutex_ guards what the hooks use and is held across
// launches, which wait where the device's queue is full, perhaps for a collective that another thread of this
// process has yet to come to. So nobody takes it for a reduction on another device, and news of communicators
// goes under pending_mutex_, which is held across nothing. records_mutex_: what the publisher reads, which
// never waits for a hook. None is held across a call into NCCL. Order: mutex_, then either of the others.
// Ownership: the Process; the device outlives it. Captures: what is recorded passes unseen, for a replay
// calls no hook.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "metrics/record_source.h"
#include "plugin/core/configuration.h"
#include "plugin/core/core_entry.h"
#include "plugin/core/device_buffer.h"
#include "plugin/core/gate_counters.h"
#include "plugin/core/memory_reach.h"
#include "plugin/core/observe/inferred_steps.h"
#include "plugin/core/observe/watch.h"

namespace stepgate::gate {

struct ObserverOptions {
  Configuration configuration;
  metrics::Identity identity;
  // The name of the gradient that a job has declared in exactly this memory, or "".
  std::function<std::string(const void* data, std::uint64_t bytes)> declared_name;
  std::uint64_t (*misses_of)(std::uint32_t cause) = nullptr;  // of this process (core_entry.h)
};

class Observer final : public metrics::RecordSource {
 public:
  Observer(ObserverOptions options, device::Device& device);

  // False: the reduction is not in this device's memory.
  bool before(const Reduction& op) noexcept;
  bool after(const Reduction& op, Outcome outcome) noexcept;
  // What was pending on comm has been launched. Only its issuer, asking itself, can read it in order.
  void settled(ncclComm_t comm) noexcept;
  void comm_retired(ncclComm_t comm) noexcept;
  // The loss scale of the job's own scaler from the next step on; nullptr ends it. Read on the first stream
  // of a step where it lies in device memory, else by the host.
  void external_scale(const float* scale) noexcept;
  // No more reductions come: the open step is whole.
  void close() noexcept;
  const device::Device& device() const { return device_; }

  // ---- RecordSource, publisher thread
  metrics::Identity identity() const override;
  ScalerParams scaler_params() const override { return default_params(ScalerRule::kNone); }
  bool enforcing() const override { return false; }
  bool ever_enforced() const override { return false; }
  std::size_t read_steps(std::uint64_t after, StepRecord* out, std::size_t capacity,
                         std::uint64_t* lost) override;
  std::string range_name(std::uint32_t range) const override;
  void read_ranges(std::vector<RangeRecord>* out) override;
  metrics::Counters counters() const override { return counters_.read(options_.misses_of); }

 private:
  static constexpr std::size_t kStepsInFlight = 64;
  static constexpr std::size_t kPending = 256;

  // One look of a step: it is there once `seen` holds it.
  struct Look {
    std::uint32_t range;
    std::uint64_t call;
    bool local;  // the send buffer was looked at as well
    bool there = false;
    RangeSlot seen;
  };
  struct Step {
    std::uint64_t number = 0;
    std::vector<Look> looks;
    double seconds = 0;    // the host's, in scans
    double timestamp = 0;  // of its end
    float scale = 0;       // the job's own; 0 none
    bool scale_on_device = false;
    bool scaled = false;  // the job has told a loss scale
    bool ended = false;
    bool lost = false;  // figures of it could not be had, or were overwritten before they were read
  };
  struct Range {
    Watch* watch = nullptr;
    std::uint32_t turnover = 0;  // of the number, when its name was found
    bool begun = false;          // by before(), for the call that is under way
    bool local = false;
  };
  struct Pending {
    Reduction op;
    std::thread::id issuer;
  };

  bool mine(const Reduction& op) noexcept {
    return op.recv != nullptr && reads_behind_a_call(device_, op.recv);
  }
  bool observable(const Reduction& op) noexcept;
  void forget_retired_locked() noexcept;
  bool keep_pending(const Reduction& op) noexcept;
  bool take_pending(ncclComm_t comm, Reduction* op) noexcept;
  std::uint32_t enter_locked(const Reduction& op) noexcept;
  bool add_range_locked(std::uint32_t id, const Reduction& op);
  void name_range_locked(std::uint32_t id, const Reduction& op);
  void begin_step_locked(device::Stream s);
  void failed_locked(metrics::Stage stage) noexcept;
  void take_scale_locked(Step& step, device::Stream s) noexcept;
  void launched_locked(const Reduction& op) noexcept;
  bool scan_locked(const Reduction& op, std::uint32_t id, ScanPhase phase) noexcept;
  void look_ended_locked(const Reduction& op, std::uint32_t id);
  void harvest_locked() noexcept;
  bool collect_locked(Step& step);
  void publish_locked(Step& step);
  void lose_locked() noexcept;
  RangeRecord record_of(const Step& step, const Look& look, ScanPhase phase) const;

  const ObserverOptions options_;
  const GradientRule rule_;
  device::Device& device_;
  GateCounters counters_;

  mutable std::mutex mutex_;
  WatchPool pool_;
  DeviceBuffer<float> scales_;  // mapped, by step
  InferredSteps steps_;
  std::vector<Range> ranges_;
  std::deque<Step> in_flight_;  // the last one may be open
  const float* external_ = nullptr;

  std::mutex pending_mutex_;
  std::vector<Pending> pending_;
  std::vector<ncclComm_t> retired_;  // steps_ has yet to forget them

  mutable std::mutex records_mutex_;
  std::vector<std::string> names_;  // by range
  std::deque<StepRecord> records_;  // the newest kRingRecords
  std::uint64_t sequence_ = 0;      // of the newest record
  std::uint64_t lost_ = 0;          // steps whose figures were overwritten; told once
  std::vector<RangeRecord> range_records_;
};

}  // namespace stepgate::gate

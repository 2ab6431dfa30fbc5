// Gate: one loss scaler's worth of agreement. It knows the declared ranges, keeps a step's lifecycle,
// has the gradients scanned, carries the exchange and hands the decision out.
//
//   job thread:        step_begin -> hooks (before/after) -> step_end -> step_wait -> apply
//   publisher:         the RecordSource half, which reads the ring, the range table's copy and atomics: from
//                      its thread, at last from the one that destroys the gate
//
// Everything of a step is enqueued on the job's streams and nothing waits: what the host knows of a step
// it learns from mapped memory, later, in harvest_locked() (gate_records.cc). What a captured graph
// replays the host does not see at all: the stamps of the slots tell the device (docs/architecture.md).
//
// Threads: step functions from one thread at a time; hooks from any thread. Locks: mutex_ guards the
// ranges and the step's host state and is never held across a call into NCCL; records_mutex_ guards
// what the publisher reads and is held for copies only. Order: mutex_, then records_mutex_.
// Ownership: the Device and the services outlive the gate. Nothing here throws after create().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collectives/core/gate_block.h"
#include "collectives/device/device.h"
#include "metrics/record_source.h"
#include "plugin/core/activation.h"
#include "plugin/core/configuration.h"
#include "plugin/core/core_entry.h"
#include "plugin/core/device_buffer.h"
#include "plugin/core/gate_counters.h"
#include "plugin/core/gate_options.h"
#include "plugin/core/groups.h"
#include "plugin/core/log.h"
#include "plugin/core/nccl_calls.h"
#include "plugin/core/observe/observations.h"
#include "plugin/core/pending_ballot.h"
#include "plugin/core/pending_calls.h"
#include "plugin/core/plane/sampler.h"
#include "plugin/core/range_table.h"
#include "plugin/core/retiring_lock.h"
#include "plugin/core/state_blob.h"

namespace stepgate::gate {

class Gate final : public metrics::RecordSource, public plane::RankSource {
 public:
  // nullptr with *error where memory cannot be had.
  static std::unique_ptr<Gate> create(GateOptions options, device::Device& device,
                                      const ShimServices& services, std::string* error);
  // Waits for the gate's own work. Not for a gate that captured(): its memory is a graph's.
  ~Gate() override;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // ---- groups and ranges (gate_ranges.cc)
  stepgate_status add_group(ncclComm_t comm);
  stepgate_status remove_group(ncclComm_t comm);
  void comm_retired(ncclComm_t comm) noexcept;
  stepgate_status declare_range(RangeSpec spec, std::uint32_t* id);
  stepgate_status retire_range(std::uint32_t id);
  stepgate_status retire_all();
  stepgate_status range_absent(std::uint32_t id, bool absent);
  bool unscales_in_hook() const { return options_.policy.unscale == UnscaleMode::kInHook; }
  // The name of a result range that lies in exactly this memory, or "".
  std::string declared_name(const void* data, std::uint64_t bytes);
  // Whether a graph may hold addresses of this gate: then its memory must outlive it.
  bool captured() const;

  // ---- hooks (gate_hooks.cc)
  void before(const Reduction& op) noexcept;
  void after(const Reduction& op, Outcome outcome) noexcept;
  // What was pending on a non-blocking communicator has been launched. Who has nothing there waits for
  // nobody.
  void settled(ncclComm_t comm) noexcept;

  // ---- activation (gate_activation.cc)
  stepgate_status enforce_summarize(device::Stream s, double* fields);
  stepgate_status enforce_decide(device::Stream s, const double* fields);
  stepgate_status enforce_begin(device::Stream s);
  stepgate_status enforce_end(device::Stream s);

  // ---- one step (gate_step.cc, gate_outcome.cc)
  stepgate_status step_begin(device::Stream s);
  stepgate_status scale(double* out);
  stepgate_status veto(device::Stream s);
  stepgate_status summarize(std::uint32_t set, device::Stream s, double* fields);
  stepgate_status decide(std::uint32_t set, device::Stream s);
  stepgate_status scaler_update(device::Stream s);
  stepgate_status step_end(std::uint32_t set, device::Stream s);
  stepgate_status step_wait(std::uint32_t set, stepgate_decision* out);
  stepgate_status apply(std::uint32_t set, device::Stream s);
  stepgate_status outputs(std::uint32_t set, const Outputs** out);
  stepgate_status set_scale(double scale);

  // ---- what happened, state (gate_state.cc)
  stepgate_status offenders(stepgate_offender* list, std::size_t* count);
  stepgate_status history(std::uint64_t after, stepgate_decision* list, std::size_t* count);
  stepgate_status state(stepgate_scaler_info* info);
  stepgate_status dump(const std::string& path);  // gate_flight.cc
  stepgate_status state_save(void* buffer, std::size_t* bytes);
  stepgate_status state_load(const void* blob, std::size_t bytes);
  stepgate_status reset(std::uint64_t generation);
  // Also for another world: the groups are forgotten.
  stepgate_status reset_world(std::uint64_t generation, int world, int rank);

  // What the job shows beside its gradients; a lock of its own.
  Observations& observations() { return observations_; }

  // ---- RecordSource (gate_records.cc), publisher thread
  metrics::Identity identity() const override;
  ScalerParams scaler_params() const override;
  bool enforcing() const override { return enforcing_.load(std::memory_order_relaxed); }
  bool ever_enforced() const override { return ever_enforced_.load(std::memory_order_relaxed); }
  std::size_t read_steps(std::uint64_t after, StepRecord* out, std::size_t capacity,
                         std::uint64_t* lost) override;
  std::string range_name(std::uint32_t range) const override;
  void read_ranges(std::vector<RangeRecord>* out) override;
  metrics::Counters counters() const override;
  void read_observations(std::vector<metrics::Observation>* out) override { observations_.read(out); }

  // ---- RankSource, the plane's thread
  const std::string& name() const override { return options_.name; }
  std::uint64_t reached() const override { return reached_.load(std::memory_order_relaxed); }
  std::uint64_t failures() const override;
  void take_offenders(std::vector<stepgate_offender>* out, std::uint64_t* lost) override;

 private:
  enum class Phase { kIdle, kOpen, kEnding };
  enum class Window { kClosed, kStep, kGraph };  // no gradients; of the open step; of a graph to come
  static constexpr std::int32_t kNoSet = -1;

  // A stream that carried gradients of the open step, beside the step's own.
  struct Used {
    device::Mark mark = nullptr;  // after its last scan
    device::Stream stream = nullptr;
    std::thread::id thread;
    std::uint64_t pokes = 0;
    bool marked = false;
  };

  // First in a call that writes on the gate's stream; at its end, with no lock held, what was written is
  // waited for where a graph may run next, which nobody can put behind it.
  class BeforeReplays {
   public:
    explicit BeforeReplays(Gate& gate) : gate_(gate) {}
    ~BeforeReplays() {
      if (gate_.captured_) gate_.device_.synchronize(gate_.control_);
    }
    BeforeReplays(const BeforeReplays&) = delete;
    BeforeReplays& operator=(const BeforeReplays&) = delete;

   private:
    Gate& gate_;
  };

  Gate(GateOptions options, device::Device& device, const ShimServices& services);
  bool allocate(std::string* error);
  std::shared_ptr<PendingBallot> make_ballot();
  bool make_order();

  // gate_ranges.cc
  void write_slot(std::uint32_t id);
  void reserve_scratch_locked();
  void widen_span_locked(const RangeSpec& spec) noexcept;
  void retired_locked(std::uint32_t id);
  void prepare_scans(std::uint32_t id);
  void put_locked(void* to, const void* from, std::size_t bytes) noexcept;
  bool readable(const void* p) noexcept;
  bool readable_send(const void* p) noexcept;
  stepgate_status check_memory(const RangeSpec& spec);
  stepgate_status check_unscale(const RangeSpec& spec) const;

  // gate_hooks.cc; mutex_ held
  Window window(const Reduction& op) noexcept;
  bool known_locked(ncclComm_t comm, bool capturing) noexcept;
  void attribute(const Reduction& op, Window w) noexcept;
  bool attribute_ranges(const Reduction& op, const void* data, std::uint64_t bytes, bool result,
                        Window w) noexcept;
  bool attribute_range(std::uint32_t id, std::ptrdiff_t shift, device::Stream s, Window w) noexcept;
  bool attribute_anonymous(const Reduction& op, std::uint64_t count, Window w) noexcept;
  void cover(const Reduction& op, Window w) noexcept;
  void moved_locked(const Reduction& op, Outcome outcome) noexcept;
  void hold_locked(const Reduction& op) noexcept;
  void launched_locked(const Reduction& op) noexcept;
  bool attribution_on() const;
  bool within_span(const void* data, std::uint64_t bytes) const noexcept;
  bool may_concern(const Reduction& op) const noexcept;
  bool wants(const Reduction& op, std::uint64_t bytes, std::uint64_t sends) noexcept;

  // gate_order.cc; mutex_ held where the name ends in _locked
  bool enter_locked(device::Stream s, device::CaptureState state) noexcept;
  void leave_locked(device::Stream s, device::CaptureState state) noexcept;
  bool control_locked() noexcept;
  void poked_locked() noexcept;
  bool settle_pokes_locked() noexcept;
  bool after_pokes_locked(device::Stream s, std::uint64_t* seen) noexcept;
  Used* used_locked(device::Stream s) noexcept;
  bool use_stream_locked(device::Stream s) noexcept;
  void mark_stream_locked(device::Stream s) noexcept;
  void after_last_scan_locked(Range& r, device::Stream s) noexcept;
  bool same_capture_locked(const char* function, device::CaptureState state, stepgate_status* why) const;
  void abandon_recording() noexcept;
  bool join_streams_locked(device::Stream s) noexcept;
  bool controllable_locked(const char* function, stepgate_status* why) noexcept;
  void forget_pending_locked(ncclComm_t comm) noexcept;
  void forget_comm_locked(ncclComm_t comm) noexcept;
  stepgate_status quiesce(const char* function);
  void settle_pending() noexcept;

  // gate_scan.cc; mutex_ held
  device::Scan reduced_scan(std::uint32_t id);
  bool scan_reduced(std::uint32_t id, device::Stream s) noexcept;
  void rewritten_locked(Range& r) noexcept;
  void count_reduced(std::uint32_t id) noexcept;
  bool cover_missing_locked(std::uint32_t set, device::Stream s) noexcept;

  // gate_step.cc; mutex_ held where the name ends in _locked
  bool summarize_locked(std::uint32_t set, device::Stream s, double* fields) noexcept;
  bool ready_for_step_locked(const char* function, std::uint32_t set, stepgate_status* why) const;
  stepgate_status decide_locked(std::uint32_t set, device::Stream s, const double* fields);
  double* own_fields(std::uint32_t set) const;
  device::FinishStep finish_job(std::int32_t decide_set);
  stepgate_status finish_locked(std::int32_t decide_set, device::Stream s, device::CaptureState state);
  void withhold_locked(std::uint32_t set, device::Stream s) noexcept;
  void release_locked(device::Stream s) noexcept;
  stepgate_status verdict_locked(std::uint32_t set) const;
  // gate_outcome.cc
  std::uint64_t begun_steps_locked() const;
  void collect_applies_locked(std::uint32_t set);
  stepgate_status apply_failed(const char* what, device::CaptureState state);
  void mirror_locked(device::Stream s) noexcept;
  void fill_decision(const Decision& d, std::uint64_t step, double next_scale, stepgate_decision* out) const;

  // gate_activation.cc
  Chain chain() const;
  bool exchange_step(const double* send, double* recv, device::Stream s, std::uint64_t agreement,
                     std::string* why) noexcept;
  bool exchange(const double* send, double* recv, device::Stream s, std::uint64_t agreement,
                std::string* why) noexcept;
  stepgate_status refuse(metrics::RefuseReason reason, const std::string& why);
  stepgate_status ready_to_vote(const char* function, device::Stream s);
  bool write_fresh_locked(std::uint64_t step) noexcept;
  bool renew_summary_locked() noexcept;
  stepgate_status vote(BallotKind kind, bool willing, device::Stream s, double* sums);
  stepgate_status confirm(stepgate_status voted, device::Stream s, const double* sums);
  Ballot ballot_locked() const;

  // gate_records.cc; mutex_ held
  void harvest_locked() noexcept;
  bool copy_table_locked();
  void collect_ranges_locked();
  void collect_offenders_locked(std::uint32_t id, const RangeSlot& slot);
  bool still_in_step_locked() const;
  void take_records_locked();
  std::size_t copy_steps(std::uint64_t after, StepRecord* out, std::size_t capacity,
                         std::uint64_t* lost) const;
  void count_release_locked(const StepRecord& r);
  void log_skip_locked(const StepRecord& r);
  void log_divergence_locked(const StepRecord& r);

  // gate_state.cc
  void clamp_restored(SavedState* s) const;
  stepgate_status end_agreement_locked(const char* function, std::uint64_t generation);

  GateOptions options_;
  device::Device& device_;
  const ShimServices& services_;
  Log log_;
  GateCounters counters_;
  Observations observations_;

  std::array<double, kExchangeFields> failure_fields_{};  // what a rank sends that failed before the exchange

  // Memory of the device, fixed addresses for the gate's life.
  DeviceBuffer<GateBlock> block_;
  DeviceBuffer<RangeSlot> slots_;  // kAnonymousSlots, then one per range id
  DeviceBuffer<double> summary_;   // kMaxSets * kExchangeFields, of the built-in exchange
  // Those that an exchange which came to nothing may still write to, whenever its collective ends: agreements
  // that begin later have one of their own.
  std::vector<DeviceBuffer<double>> kept_summaries_;
  bool summary_in_doubt_ = false;
  DeviceBuffer<double> failure_;  // kExchangeFields, constant after creation
  DeviceBuffer<double> nothing_;  // as many zeros: what a rank sends that an earlier group cut off
  const std::shared_ptr<Polls> polls_ = std::make_shared<Polls>();  // a timed-out call keeps it
  std::shared_ptr<PendingBallot> ballot_;
  // Mapped memory: written by the device, read by the host.
  DeviceBuffer<StepRecord> ring_;
  DeviceBuffer<std::uint64_t> ring_head_;
  DeviceBuffer<GateBlock> mirror_;  // the block as of the last begin, decide or end
  DeviceBuffer<RangeSlot> table_[2];
  DeviceBuffer<std::uint64_t> table_stamps_;
  // Streams of the job may be gone once its call has returned: what has to come after a call waits for its
  // mark, and calls that are given no stream use the gate's own.
  device::Stream control_ = nullptr;
  device::Mark begun_ = nullptr;    // the open step's begin
  device::Mark done_ = nullptr;     // the last call of a step's life, or on control_
  device::Mark ordered_ = nullptr;  // between two streams, used at once

  mutable RetiringLock mutex_{[this](ncclComm_t comm) { forget_comm_locked(comm); }};
  RangeTable ranges_{kMaxRanges};
  std::vector<DeviceBuffer<GradStats>> segment_stats_;  // per slot; mapped, one per segment
  std::vector<DeviceBuffer<GradStats>> kept_stats_;     // a graph may write there
  Groups groups_;
  std::vector<ncclComm_t> known_;  // communicators seen while nothing captured
  PendingCalls pending_;
  std::array<Used, kSideStreams> used_;  // of the open step, the first used_count_
  std::size_t used_count_ = 0;
  std::vector<RangeTable::Hit> hits_;         // scratch
  std::vector<device::Segment> shifted_;      // scratch
  std::vector<device::Scan> scans_;           // scratch
  std::vector<device::Apply> applies_;        // scratch
  std::array<const void*, 64> seen_sends_{};  // send buffers that the device can read
  Phase phase_ = Phase::kIdle;
  std::uint64_t step_ = 0;                                         // begun by calls; replays come on top
  std::uint32_t summarized_ = 0, decided_ = 0, applied_sets_ = 0;  // bit per set, of the open step
  std::uint32_t late_ = 0;  // sets with a range that was multiplied, summed up and written again
  std::array<bool, kMaxSets> on_host_{};       // that array lies where kernels do not reach
  std::array<double*, kMaxSets> fields_of_{};  // where summarize wrote
  std::uint32_t anonymous_ = 0;                // slots used in this step
  bool capturing_ = false;                     // the open step is being recorded, not run
  std::atomic<bool> captured_{false};          // something of this gate was recorded
  bool graph_unnamed_ = false;                 // a graph holds a reduction without a local scan of its own
  bool attributing_ = false;
  bool drop_veto_ = false;  // a reduction of the open step was dropped
  bool unscaling_ = false;  // scans of reduced gradients multiply, in the open step
  bool failed_ = false;     // before the exchange of the open step: send the constant failure summary
  // The device's copy of block or slots is not what this side believes (or the other way round): from
  // here on every summary is the constant failure summary, so that all ranks are released.
  bool broken_ = false;
  bool ended_whole_ = false;              // the last step, by step_end
  bool any_begun_ = false;                // a step has begun since creation or the last load
  bool release_counted_ = false;          // since the last activation
  device::Stream step_stream_ = nullptr;  // of the open step's begin
  device::Mark last_ = nullptr;           // begun_ or done_; nullptr: nothing to wait for
  device::Stream last_stream_ = nullptr;  // where last_ was recorded; for comparison alone
  std::uint64_t pokes_ = 0;               // calls that wrote on control_
  std::uint64_t settled_pokes_ = 0;       // of these, those that have been waited for
  std::uint64_t begin_pokes_ = 0;         // pokes_ at the step's begin
  std::uint64_t step_pokes_ = 0;          // of these, those that the step's stream comes after
  double scan_seconds_ = 0, agreement_seconds_ = 0;
  std::uint64_t records_taken_ = 0;  // of the ring
  std::uint64_t table_taken_ = 0;    // the step of the newest table copied
  std::vector<RangeSlot> table_copy_;

  // All memory that was ever declared lies within; grows only.
  std::atomic<std::uintptr_t> span_begin_{~std::uintptr_t{0}}, span_end_{0};
  std::atomic<bool> exchange_stuck_{false};  // a collective of ours never returned
  std::atomic<std::uint64_t> agreement_{0};  // counts those that reset and reset_world ended
  std::atomic<std::uint64_t> reached_{0};    // the step whose exchange was come to
  std::atomic<bool> enforcing_{false};
  std::atomic<bool> ever_enforced_{false};

  mutable std::mutex records_mutex_;
  std::vector<std::string> range_names_;
  std::vector<RangeRecord> range_records_;
  std::deque<stepgate_offender> offenders_;
  std::vector<stepgate_offender> for_plane_;  // not taken yet
  std::uint64_t plane_lost_ = 0;
  std::string nccl_version_;
  ScalerParams published_params_;
};

// Refuses a call's stream (gate_step.cc).
stepgate_status per_thread(const char* function);

}  // namespace stepgate::gate

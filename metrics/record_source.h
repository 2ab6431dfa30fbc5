// RecordSource: what the metrics layer sees of a gate. Pure interface; the gate implements it, tests
// implement it with made-up records, and metrics never looks further.
//
// Threads: every function is called by one thread at a time, the publisher's or one that removes the source,
// and never blocks on the job: implementations read rings, tables and atomics. A source outlives its
// registration with a Publisher (Publisher::remove_source returns when the publisher will not call it again).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/core/decision.h"
#include "collectives/core/records.h"
#include "collectives/core/scaler.h"

namespace stepgate::metrics {

// Who publishes. NCCL's version, the rule and the world may change in the life of a source.
struct Identity {
  std::string gate = "0";  // label `gate`, shown only where a process has several
  int rank = 0;
  int world = 1;
  int local_rank = 0;
  std::string host;
  std::string job_name;
  std::string run_id;
  std::string device;        // "host", "cuda"
  std::string nccl_version;  // "2.28.9", or "" while no communicator has been seen
  std::string rule;          // scaler_rule_name
  std::string version;       // StepGate's
  // How often the launcher has restarted the job; unset where none counts.
  std::optional<std::uint64_t> torchelastic_restarts, slurm_restarts;
};

// Operations that carry or may carry gradients, for stepgate_reductions_total{op=}.
enum class ReductionOp : std::uint32_t { kAllReduce = 0, kReduceScatter = 1, kReduce = 2 };
inline constexpr std::size_t kReductionOps = 3;
inline constexpr std::array<const char*, kReductionOps> kReductionOpNames = {"all_reduce", "reduce_scatter",
                                                                             "reduce"};

// Where a fail-open event happened, for stepgate_plugin_errors_total{stage=}.
enum class Stage : std::uint32_t {
  kLoad = 0,
  kHook = 1,
  kScan = 2,
  kSummarize = 3,
  kExchange = 4,
  kDecide = 5,
  kPublish = 6
};
inline constexpr std::size_t kStages = 7;
inline constexpr std::array<const char*, kStages> kStageNames = {"load",     "hook",   "scan",   "summarize",
                                                                 "exchange", "decide", "publish"};

// Why an activation was refused or an agreement released; label `reason`.
enum class RefuseReason : std::uint32_t {
  kVersion = 0,
  kConfig = 1,
  kGroups = 2,
  kState = 3,
  kGeneration = 4,
  kContributors = 5,
  kOther = 6
};
inline constexpr std::size_t kRefuseReasons = 7;
inline constexpr std::array<const char*, kRefuseReasons> kRefuseReasonNames = {
    "version", "config", "groups", "state", "generation", "contributors", "other"};
enum class ReleaseReason : std::uint32_t {
  kDegraded = 0,
  kContributors = 1,
  kUndecided = 2,
  kDivergence = 3,
  kEnded = 4
};
inline constexpr std::size_t kReleaseReasons = 5;
inline constexpr std::array<const char*, kReleaseReasons> kReleaseReasonNames = {
    "degraded", "contributors", "undecided", "divergence", "ended"};

// Why hooks do not see calls of NCCL. The same order as plugin/survey/judge.h.
inline constexpr std::size_t kMissCauses = 5;
inline constexpr std::array<const char*, kMissCauses> kMissCauseNames = {"unhooked", "deepbind", "dlsym",
                                                                         "hidden", "tail_call"};

// Cumulative counts since the gate was created. Each only grows.
struct Counters {
  std::array<std::uint64_t, kReductionOps> reductions_scanned{};
  std::array<std::uint64_t, kReductionOps> reductions_passed{};
  std::array<std::uint64_t, 2> scanned_bytes{};  // by ScanPhase
  std::array<std::uint64_t, kStages> plugin_errors{};
  std::array<std::uint64_t, kRefuseReasons> enforce_refused{};
  std::array<std::uint64_t, kReleaseReasons> enforce_released{};
  std::uint64_t ranges_missing = 0;
  std::uint64_t ranges_rescanned = 0;
  std::array<std::uint64_t, kMissCauses> hooks_missed{};  // of the process: every gate shows the same
  std::uint64_t external_scale_changes = 0;
};

// What a job shows beside its gradients: the phases of stepgate_observe (in its order), and updates.
enum class ObservedPhase : std::uint32_t {
  kForward = 0,
  kGradInput = 1,
  kLoss = 2,
  kWeight = 3,
  kUpdate = 4
};
inline constexpr std::size_t kObservedPhases = 5;
inline constexpr std::array<const char*, kObservedPhases> kObservedPhaseNames = {"forward", "grad_input",
                                                                                 "loss", "weight", "update"};

// One name in one phase: the newest look at it, and counts over all looks that were read.
struct Observation {
  std::string name;
  ObservedPhase phase = ObservedPhase::kForward;
  std::uint64_t sequence = 0;      // of the newest look; counts from 1
  GradStats stats;                 // kUpdate: the elements alone
  std::uint64_t updates = 0;       // kUpdate: elements whose update was not zero
  std::uint64_t absorbed = 0;      // of these: the stored value did not change
  std::uint64_t inf = 0, nan = 0;  // elements so far
};

class RecordSource {
 public:
  virtual ~RecordSource() = default;
  virtual Identity identity() const = 0;
  virtual ScalerParams scaler_params() const = 0;
  virtual bool enforcing() const = 0;
  virtual bool ever_enforced() const = 0;  // families that need enforce exist from then on
  // Steps with sequence > after, oldest first, at most `capacity`. *lost: how many in between had
  // been overwritten before they could be read.
  virtual std::size_t read_steps(std::uint64_t after, StepRecord* out, std::size_t capacity,
                                 std::uint64_t* lost) = 0;
  // Name of a range id; "" for an id never declared. Names stay after a range is retired.
  virtual std::string range_name(std::uint32_t range) const = 0;
  // The newest record of every range and phase; appended to out.
  virtual void read_ranges(std::vector<RangeRecord>* out) = 0;
  virtual Counters counters() const = 0;
  // Every name and phase that has been looked at, always in the same order; appended to out.
  virtual void read_observations(std::vector<Observation>*) {}
};

}  // namespace stepgate::metrics

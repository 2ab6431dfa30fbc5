// GateCounters: cumulative counts that job threads raise and the publisher reads. Relaxed atomics: a
// page may show one counter a moment ahead of another, never a torn value.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "metrics/record_source.h"

namespace stepgate::gate {

class GateCounters {
 public:
  void scanned(metrics::ReductionOp op) { bump(scanned_[index(op)]); }
  void passed(metrics::ReductionOp op) {
    if (index(op) < passed_.size()) bump(passed_[index(op)]);  // what only moves data is none of these
  }
  void bytes(ScanPhase phase, std::uint64_t n) { bump(bytes_[static_cast<std::size_t>(phase)], n); }
  void error(metrics::Stage stage) { bump(errors_[index(stage)]); }
  void refused(metrics::RefuseReason why) { bump(refused_[index(why)]); }
  void released(metrics::ReleaseReason why) { bump(released_[index(why)]); }
  void range_missing() { bump(missing_); }
  void range_rescanned() { bump(rescanned_); }
  void external_scale() { bump(external_); }

  // misses_of: what went past the hooks of this process, by cause; null where nobody counts it.
  metrics::Counters read(std::uint64_t (*misses_of)(std::uint32_t cause) = nullptr) const {
    metrics::Counters c;
    for (std::uint32_t cause = 0; misses_of != nullptr && cause < metrics::kMissCauses; ++cause) {
      c.hooks_missed[cause] = misses_of(cause);
    }
    copy(scanned_, c.reductions_scanned);
    copy(passed_, c.reductions_passed);
    copy(bytes_, c.scanned_bytes);
    copy(errors_, c.plugin_errors);
    copy(refused_, c.enforce_refused);
    copy(released_, c.enforce_released);
    c.ranges_missing = missing_.load(std::memory_order_relaxed);
    c.ranges_rescanned = rescanned_.load(std::memory_order_relaxed);
    c.external_scale_changes = external_.load(std::memory_order_relaxed);
    return c;
  }

 private:
  using Cell = std::atomic<std::uint64_t>;
  template <class E>
  static std::size_t index(E e) {
    return static_cast<std::size_t>(e);
  }
  static void bump(Cell& c, std::uint64_t by = 1) { c.fetch_add(by, std::memory_order_relaxed); }
  template <std::size_t N>
  static void copy(const std::array<Cell, N>& from, std::array<std::uint64_t, N>& to) {
    for (std::size_t i = 0; i < N; ++i) to[i] = from[i].load(std::memory_order_relaxed);
  }

  std::array<Cell, metrics::kReductionOps> scanned_{}, passed_{};
  std::array<Cell, 2> bytes_{};
  std::array<Cell, metrics::kStages> errors_{};
  std::array<Cell, metrics::kRefuseReasons> refused_{};
  std::array<Cell, metrics::kReleaseReasons> released_{};
  Cell missing_{0}, rescanned_{0}, external_{0};
};

}  // namespace stepgate::gate

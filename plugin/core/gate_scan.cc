// Gate: the scans of reduced gradients, by the hooks and at the step's end. mutex_ is held.
#include <chrono>

#include "plugin/core/gate.h"

namespace stepgate::gate {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

}  // namespace

device::Scan Gate::reduced_scan(std::uint32_t id) {
  const Range& r = ranges_.slot(id);
  RangeSlot& slot = slots_.get()[kAnonymousSlots + id];
  device::Scan job;
  job.segments = r.spec.segments;
  job.stored = r.spec.type;
  job.compute = r.spec.compute;
  job.total = &slot.reduced;
  job.epoch = &block_.get()->step;
  job.stamp = &slot.reduced_step;
  if (unscaling_ && !r.unscaled) job.unscale_by = &block_.get()->unscale_by;
  return job;
}

void Gate::count_reduced(std::uint32_t id) noexcept {
  const RangeSpec& spec = ranges_.slot(id).spec;
  for (const device::Segment& seg : spec.segments) {
    counters_.bytes(ScanPhase::kReduced, seg.count * element_size(spec.type));
  }
}

bool Gate::scan_reduced(std::uint32_t id, device::Stream s) noexcept {
  if (device_.scan(s, reduced_scan(id)) != device::Code::kOk) {
    counters_.error(metrics::Stage::kScan);
    failed_ = failed_ || unscaling_;  // part of it may be multiplied
    return false;
  }
  count_reduced(id);
  ranges_.slot(id).unscaled = unscaling_;
  return true;
}

// A call of the open step writes where the range lies. What has been unscaled already is then mixed up with
// what has not (a second reduction in the step), and no number says how: no such step is applied. Once the
// set's summary is out the other ranks cannot be told any more, so this one refuses the decision.
void Gate::rewritten_locked(Range& r) noexcept {
  r.covered = false;
  r.touched = true;
  const std::uint32_t set = 1u << r.spec.set;
  if (!r.unscaled || (decided_ & set) != 0) return;
  const bool late = (summarized_ & set) != 0;
  const bool told = late ? (late_ & set) != 0 : drop_veto_;
  (late ? late_ |= set : drop_veto_ = true);
  if (told) return;
  try {
    log_.warn("range '" + r.spec.name + "' was written again in step " + std::to_string(step_) +
              " after unscale = in_hook had multiplied it" +
              (late ? " and its summary was made; this rank refuses the decision" : "; the step is skipped") +
              " (declare it final only where one reduction a step writes it)");
  } catch (...) {  // no memory for the sentence
  }
}

// Every declared result has final statistics before the summary: what no hook covered is read now, all of
// it in one pass. What a graph holds a scan of may have been scanned by a replay that no hook saw: the
// device looks at the stamp first.
bool Gate::cover_missing_locked(std::uint32_t set, device::Stream s) noexcept {
  const auto start = Clock::now();
  scans_.clear();
  for (std::uint32_t i = 0; i < ranges_.slots(); ++i) {
    Range& r = ranges_.slot(i);
    if (!r.declared || !r.spec.result || r.spec.set != set || r.absent || r.covered) continue;
    const bool by_graph = r.graph && !r.touched && !capturing_;
    if (by_graph) {
      if (graph_unnamed_) attributing_ = false;
    } else if (r.reduced) {
      counters_.range_rescanned();
    } else {
      counters_.range_missing();
      attributing_ = false;  // its reduction was never seen, so nobody knows what went in
    }
    r.graph = r.graph || capturing_;
    scans_.push_back(reduced_scan(i));
    scans_.back().unless_stamped = by_graph;
    r.covered = true;
    r.unscaled = unscaling_;
    if (!by_graph) count_reduced(i);
  }
  if (scans_.empty()) return true;
  const bool all = device_.scan_all(s, scans_) == device::Code::kOk;
  if (!all) counters_.error(metrics::Stage::kScan);
  scan_seconds_ += seconds_since(start);
  return all;
}

}  // namespace stepgate::gate

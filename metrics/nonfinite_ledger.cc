#include "metrics/nonfinite_ledger.h"

#include <algorithm>

namespace stepgate::metrics {
namespace {

constexpr std::size_t kLocal = static_cast<std::size_t>(ScanPhase::kLocal);
constexpr std::size_t kReduced = static_cast<std::size_t>(ScanPhase::kReduced);

void add(NonfiniteCounts& to, const NonfiniteCounts& from) {
  for (std::size_t p = 0; p < kPhases; ++p) {
    for (std::size_t k = 0; k < kNonfiniteKinds; ++k) to.n[p][k] += from.n[p][k];
  }
}

}  // namespace

void NonfiniteLedger::add_step(const StepRecord& r) {
  if ((r.local_sum.inf | r.local_sum.nan | r.local_inf | r.local_nan) == 0) return;
  NonfiniteCounts counts;
  counts.n[kLocal] = {r.local_inf, r.local_nan};
  counts.n[kReduced] = {r.local_sum.inf, r.local_sum.nan};
  add(steps_[r.step].left, counts);
}

void NonfiniteLedger::claim(const RangeRecord& r) {
  const auto it = steps_.find(r.step);
  if (it == steps_.end() || r.phase >= kPhases) return;
  auto& left = it->second.left.n[r.phase];
  left[0] -= std::min(left[0], r.stats.inf);
  left[1] -= std::min(left[1], r.stats.nan);
}

NonfiniteCounts NonfiniteLedger::close_poll(bool last) {
  NonfiniteCounts rest;
  for (auto it = steps_.begin(); it != steps_.end();) {
    if (it->second.old || last) {
      add(rest, it->second.left);
      it = steps_.erase(it);
    } else {
      it->second.old = true;
      ++it;
    }
  }
  return rest;
}

}  // namespace stepgate::metrics

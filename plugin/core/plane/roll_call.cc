#include "plugin/core/plane/roll_call.h"

#include <algorithm>
#include <numeric>

namespace stepgate::plane {

RollCall::RollCall(int world, const Limits& limits, double now)
    : limits_(limits), ranks_(static_cast<std::size_t>(world)) {
  for (Entry& e : ranks_) e.heard_at = now;
}

void RollCall::heard(int rank, const Figures& figures, double now) {
  Entry& e = ranks_[static_cast<std::size_t>(rank)];
  if (figures.reached != e.figures.reached) e.behind = false;  // it moves: judged anew
  e.figures = figures;
  e.heard_at = now;
  e.ever = e.linked = true;
  e.gone = false;
  e.why.clear();
}

void RollCall::lost(int rank, const std::string& why) {
  Entry& e = ranks_[static_cast<std::size_t>(rank)];
  if (e.gone) return;
  e.linked = false;
  e.why = why;
}

void RollCall::left(int rank, double now) {
  Entry& e = ranks_[static_cast<std::size_t>(rank)];
  e.heard_at = now;
  e.ever = e.gone = true;
  e.linked = e.behind = e.silent = false;
}

bool RollCall::up(const Entry& e, double now) const {
  return e.linked && now - e.heard_at <= limits_.timeout;
}

// Seconds without a word or without a step, whichever is longer.
double RollCall::silence(const Entry& e, double now) const {
  if (e.gone) return 0;
  const double unheard = now - e.heard_at;
  return std::max(unheard, e.behind ? now - e.behind_since : 0.0);
}

// Of ranks that are still there: one that ended its part early holds nobody up.
std::uint64_t RollCall::furthest() const {
  return std::accumulate(
      ranks_.begin(), ranks_.end(), std::uint64_t{0},
      [](std::uint64_t most, const Entry& e) { return e.gone ? most : std::max(most, e.figures.reached); });
}

void RollCall::judge(double now, std::vector<Silence>* found) {
  const std::uint64_t others = furthest();
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    Entry& e = ranks_[rank];
    if (e.gone) continue;
    if (e.figures.reached >= others) {
      e.behind = false;
    } else if (!e.behind) {
      e.behind = true;
      e.behind_since = now;
    }
    const double seconds = silence(e, now);
    const bool silent = seconds > limits_.silent_after;
    if (silent && !e.silent) {
      found->push_back({static_cast<int>(rank), seconds, e.figures.reached, others, up(e, now), e.why});
    }
    e.silent = silent;
  }
}

void RollCall::fill(double now, metrics::JobView* view) const {
  view->ranks.resize(ranks_.size());
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const Entry& e = ranks_[rank];
    metrics::JobRank& r = view->ranks[rank];
    r.up = up(e, now);
    r.seen = e.ever;
    r.silent = e.silent;
    r.silent_seconds = silence(e, now);
    r.reached_step = e.figures.reached;
    r.last_step = e.figures.last_step;
    r.applied = e.figures.applied;
    r.skipped = e.figures.skipped;
    r.local_inf = e.figures.local_inf;
    r.local_nan = e.figures.local_nan;
    r.loss_scale = e.figures.scale;
    r.enforcing = e.figures.enforcing != 0;
    r.released = e.figures.released != 0;
  }
}

}  // namespace stepgate::plane

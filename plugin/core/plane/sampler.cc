#include "plugin/core/plane/sampler.h"

#include <algorithm>
#include <cstring>

namespace stepgate::plane {
namespace {

constexpr int kReadsAtOnce = 8;  // two rings full: a sample ends even if the job outruns it

template <std::size_t N, class From>
void copy_text(char (&to)[N], const From& from, std::size_t size) {
  const std::size_t n = std::min(size, N - 1);
  std::memcpy(to, from, n);
  to[n] = '\0';
}

}  // namespace

void Sampler::add(RankSource* source) {
  const std::lock_guard lock(mutex_);
  Entry entry{source, 0, {}};
  if (gates_.empty()) entry.figures = last_;  // a later gate goes on with the counts
  gates_.push_back(entry);
}

void Sampler::remove(RankSource* source) {
  const std::lock_guard lock(mutex_);
  const auto it =
      std::find_if(gates_.begin(), gates_.end(), [&](const Entry& e) { return e.source == source; });
  if (it == gates_.end()) return;
  if (it == gates_.begin()) {
    read(*it);
    last_ = it->figures;
    last_.enforcing = 0;
  }
  gates_.erase(it);
}

Figures Sampler::sample(std::vector<Offender>* fresh, std::uint64_t* lost) {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : gates_) {
    read(entry);
    take(*entry.source, fresh, lost);
  }
  return gates_.empty() ? last_ : gates_.front().figures;
}

void Sampler::read(Entry& entry) {
  Figures& f = entry.figures;
  for (int i = 0; i < kReadsAtOnce; ++i) {
    std::uint64_t lost = 0;
    const std::size_t n = entry.source->read_steps(entry.sequence, steps_.data(), steps_.size(), &lost);
    for (std::size_t k = 0; k < n; ++k) {
      entry.sequence = std::max(entry.sequence, steps_[k].sequence);
      count(steps_[k], f);
    }
    if (n < steps_.size()) break;
  }
  f.reached = std::max(entry.source->reached(), f.last_step);
  f.enforcing = entry.source->enforcing() ? 1 : 0;
  f.errors = entry.source->failures();
}

void Sampler::count(const StepRecord& r, Figures& f) {
  f.last_step = r.step;
  f.scale = r.scaler.scale;
  f.released = r.decision.released != 0 ? 1 : 0;
  f.local_inf += r.local_inf;
  f.local_nan += r.local_nan;
  if (r.decision.skip == 0) {
    ++f.applied;
    return;
  }
  // A skip without a reason was never decided: the job sees the same as after a veto.
  const auto reason = static_cast<std::size_t>(r.decision.reason);
  ++f.skipped[reason >= 1 && reason <= kSkipKinds ? reason - 1 : 2];
}

void Sampler::take(RankSource& source, std::vector<Offender>* fresh, std::uint64_t* lost) {
  std::vector<stepgate_offender> found;
  source.take_offenders(&found, lost);
  for (const stepgate_offender& o : found) {
    Offender w;
    w.step = o.step;
    w.inf = o.inf;
    w.nan = o.nan;
    w.rank = o.rank;
    w.has_nan = o.has_nan != 0 ? 1 : 0;
    copy_text(w.gate, source.name().data(), source.name().size());
    copy_text(w.range, o.range, std::strlen(o.range));
    copy_text(w.parameter, o.parameter, std::strlen(o.parameter));
    fresh->push_back(w);
  }
}

}  // namespace stepgate::plane

#include "metrics/observation_feed.h"

#include <cmath>
#include <limits>

#include "metrics/label.h"

namespace stepgate::metrics {
namespace {

double share_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

double rms_of(const GradStats& s) {
  const std::uint64_t finite = s.elements - s.inf - s.nan;
  return finite == 0 ? std::numeric_limits<double>::quiet_NaN()
                     : std::sqrt(s.sum_squares / static_cast<double>(finite));
}

void join(Observation& to, const Observation& from) {
  add_counts(to.stats, from.stats);
  to.stats.sum_squares += from.stats.sum_squares;
  to.updates += from.updates;
  to.absorbed += from.absorbed;
}

}  // namespace

void ObservationFeed::poll(RecordSource& source, std::vector<Anomaly>& found) {
  read_.clear();
  source.read_observations(&read_);
  for (std::size_t i = seen_.size(); i < read_.size(); ++i) admit(read_[i]);
  if (!any_news()) return;
  std::map<Key, Observation> together;
  for (std::size_t i = 0; i < read_.size(); ++i) {
    Seen& seen = seen_[i];
    join(together[seen.key], read_[i]);
    if (read_[i].sequence == seen.sequence) continue;
    seen.sequence = read_[i].sequence;
    count(read_[i], seen);
    judge(read_[i], seen, found);
  }
  for (const auto& [key, all] : together) show(key, all);
}

bool ObservationFeed::any_news() const {
  for (std::size_t i = 0; i < read_.size(); ++i) {
    if (read_[i].sequence != seen_[i].sequence) return true;
  }
  return false;
}

// Under which name it is published, for good.
void ObservationFeed::admit(const Observation& o) {
  const bool full = lines_.size() >= series_.bucket_cap();
  const std::string name = label_text(o.name);
  seen_.push_back({{full || name == kOtherBucket ? kOtherBucket : name, o.phase}});
  line(seen_.back().key);
}

void ObservationFeed::count(const Observation& o, Seen& seen) {
  if (o.phase == ObservedPhase::kUpdate) return;
  const Line& l = line(seen.key);
  l.inf->add(static_cast<double>(o.inf - seen.inf));
  l.nan->add(static_cast<double>(o.nan - seen.nan));
  seen.inf = o.inf;
  seen.nan = o.nan;
}

void ObservationFeed::judge(const Observation& o, Seen& seen, std::vector<Anomaly>& found) const {
  if (o.phase != ObservedPhase::kUpdate) return;
  const double share = share_of(o.absorbed, o.updates);
  const bool stagnant = o.updates != 0 && share >= thresholds_.stagnation_share;
  if (stagnant && !seen.stagnant) {
    found.push_back({AnomalyKind::kStagnation, o.sequence, kOffenderUnknown, kNoRange, share});
  }
  seen.stagnant = stagnant;
}

void ObservationFeed::show(const Key& key, const Observation& all) {
  const Line& l = line(key);
  if (key.second == ObservedPhase::kUpdate) {
    l.absorbed_ratio->set(share_of(all.absorbed, all.updates));
    return;
  }
  l.abs_max->set(all.stats.abs_max);
  l.rms->set(rms_of(all.stats));
  l.zero_ratio->set(share_of(all.stats.zeros, all.stats.elements));
  l.subnormal_ratio->set(share_of(all.stats.subnormals, all.stats.elements));
}

ObservationFeed::Line& ObservationFeed::line(const Key& key) {
  const auto [it, fresh] = lines_.try_emplace(key);
  Line& l = it->second;
  if (!fresh) return l;
  Series& s = series_.series();
  if (key.second == ObservedPhase::kUpdate) {
    l.absorbed_ratio = &s.gauge(FamilyId::kUpdateAbsorbedRatio, {{"name", key.first}});
    return l;
  }
  const Labels labels = {{"name", key.first},
                         {"phase", kObservedPhaseNames[static_cast<std::size_t>(key.second)]}};
  l.abs_max = &s.gauge(FamilyId::kObservationAbsMax, labels);
  l.rms = &s.gauge(FamilyId::kObservationRms, labels);
  l.zero_ratio = &s.gauge(FamilyId::kObservationZeroRatio, labels);
  l.subnormal_ratio = &s.gauge(FamilyId::kObservationSubnormalRatio, labels);
  const auto counter = [&](const char* kind) {
    Labels with = labels;
    with.emplace("kind", kind);
    return &s.counter(FamilyId::kObservationNonfinite, with);
  };
  l.inf = counter("inf");
  l.nan = counter("nan");
  return l;
}

}  // namespace stepgate::metrics

#include "metrics/job_feed.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace stepgate::metrics {
namespace {

// A rank that started again counts from zero: what it says then is all new.
double advance(std::uint64_t now, std::uint64_t& before) {
  const std::uint64_t from = now < before ? 0 : before;
  before = now;
  return static_cast<double>(now - from);
}

std::uint64_t skips(const JobRank& r) {
  return std::accumulate(r.skipped.begin(), r.skipped.end(), std::uint64_t{0});
}

}  // namespace

JobFeed::JobFeed(Registry& registry, JobSource& source)
    : registry_(registry),
      source_(source),
      series_(registry),
      up_(series_.gauge(FamilyId::kJobRanksUp)),
      silent_(series_.gauge(FamilyId::kJobRanksSilent)),
      dropped_(series_.counter(FamilyId::kJobOffendersDropped)) {}

void JobFeed::poll(std::vector<Anomaly>* found) {
  source_.read(&view_);
  source_.take_anomalies(found);
  const auto page = registry_.page_lock();
  grow(view_.ranks.size());
  for (std::size_t rank = 0; rank < view_.ranks.size(); ++rank) {
    if (rank < gauges_.size()) show(rank, view_.ranks[rank]);
    count(rank, view_.ranks[rank]);
  }
  show_job();
}

void JobFeed::grow(std::size_t ranks) {
  before_.resize(std::max(before_.size(), ranks));
  for (std::size_t rank = gauges_.size(); rank < std::min(ranks, kRankSeries); ++rank) {
    const Labels labels = {{"rank", std::to_string(rank)}};
    gauges_.push_back({&series_.gauge(FamilyId::kRankUp, labels),
                       &series_.gauge(FamilyId::kRankSilentSeconds, labels),
                       &series_.gauge(FamilyId::kRankLastStep, labels), nullptr,
                       &series_.gauge(FamilyId::kRankEnforcing, labels)});
    counters_.push_back(counters(std::to_string(rank)));
  }
  if (ranks > kRankSeries && counters_.size() == kRankSeries) counters_.push_back(counters("other"));
}

JobFeed::RankCounters JobFeed::counters(const std::string& rank) {
  return {&series_.counter(FamilyId::kRankSkipped, {{"rank", rank}}),
          &series_.counter(FamilyId::kRankNonfinite, {{"rank", rank}, {"kind", "inf"}}),
          &series_.counter(FamilyId::kRankNonfinite, {{"rank", rank}, {"kind", "nan"}})};
}

void JobFeed::show(std::size_t rank, const JobRank& r) {
  RankGauges& g = gauges_[rank];
  g.up->set(r.up ? 1 : 0);
  g.silent_seconds->set(r.silent_seconds);
  g.last_step->set(static_cast<double>(r.last_step));
  g.enforcing->set(r.enforcing && !r.released ? 1 : 0);
  if (r.loss_scale <= 0) return;
  if (g.loss_scale == nullptr) {
    g.loss_scale = &series_.gauge(FamilyId::kRankLossScale, {{"rank", std::to_string(rank)}});
  }
  g.loss_scale->set(r.loss_scale);
}

void JobFeed::count(std::size_t rank, const JobRank& r) {
  const RankCounters& c = counters_[std::min(rank, counters_.size() - 1)];
  c.skipped->add(advance(skips(r), before_[rank].skipped));
  c.inf->add(advance(r.local_inf, before_[rank].inf));
  c.nan->add(advance(r.local_nan, before_[rank].nan));
}

void JobFeed::show_job() {
  const auto how_many = [this](bool JobRank::*flag) {
    return static_cast<double>(
        std::count_if(view_.ranks.begin(), view_.ranks.end(), [&](const JobRank& r) { return r.*flag; }));
  };
  up_.set(how_many(&JobRank::up));
  silent_.set(how_many(&JobRank::silent));
  dropped_.add(advance(view_.offenders_lost, dropped_before_));
  std::vector<double> steps, scales;
  for (const JobRank& r : view_.ranks) {
    if (r.seen) steps.push_back(static_cast<double>(r.last_step));
    if (r.loss_scale > 0) scales.push_back(r.loss_scale);
  }
  const auto bounds = [this](FamilyId id, const std::vector<double>& values) {
    if (values.empty()) return;
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    series_.gauge(id, {{"bound", "lowest"}}).set(*low);
    series_.gauge(id, {{"bound", "highest"}}).set(*high);
  };
  bounds(FamilyId::kJobLastStep, steps);
  bounds(FamilyId::kJobLossScale, scales);
}

}  // namespace stepgate::metrics

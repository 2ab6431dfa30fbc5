#include "metrics/registry.h"

namespace stepgate::metrics {
namespace {

template <typename T>
prometheus::Family<T>& get_or_build(void*& slot, prometheus::Registry& registry, FamilyId id,
                                    prometheus::detail::Builder<T> builder) {
  if (slot == nullptr) {
    const FamilyInfo& info = family_info(id);
    slot = &builder.Name(info.name).Help(info.help).Register(registry);
  }
  return *static_cast<prometheus::Family<T>*>(slot);
}

template <typename Ref>
Ref* find(std::deque<Ref>& refs, FamilyId id, const Labels& labels) {
  for (Ref& ref : refs) {
    if (ref.id == id && ref.labels == labels) return &ref;
  }
  return nullptr;
}

// Pours what a histogram has counted into an empty one with the same bounds.
void pour(const prometheus::Histogram& from, prometheus::Histogram& to) {
  const prometheus::ClientMetric seen = from.Collect();
  std::vector<double> increments;
  std::uint64_t below = 0;
  for (const auto& bucket : seen.histogram.bucket) {
    increments.push_back(static_cast<double>(bucket.cumulative_count - below));
    below = bucket.cumulative_count;
  }
  to.ObserveMultiple(increments, seen.histogram.sample_sum);
}

}  // namespace

// Throw: a family registered twice would make an invalid page, so it is an error at once.
Registry::Registry() : registry_(prometheus::Registry::InsertBehavior::Throw) {}

std::vector<prometheus::MetricFamily> Registry::Collect() const {
  const auto lock = page_lock();
  return registry_.Collect();
}

std::vector<prometheus::MetricFamily> Page::Collect() const noexcept {
  try {
    return inside_->Collect();
  } catch (...) {
    return {};
  }
}

prometheus::Family<prometheus::Counter>& Registry::counters(FamilyId id) {
  return get_or_build(families_[static_cast<std::size_t>(id)], registry_, id, prometheus::BuildCounter());
}
prometheus::Family<prometheus::Gauge>& Registry::gauges(FamilyId id) {
  return get_or_build(families_[static_cast<std::size_t>(id)], registry_, id, prometheus::BuildGauge());
}
prometheus::Family<prometheus::Histogram>& Registry::histograms(FamilyId id) {
  return get_or_build(families_[static_cast<std::size_t>(id)], registry_, id, prometheus::BuildHistogram());
}

CounterRef& Series::counter(FamilyId id, const Labels& labels) {
  if (CounterRef* known = find(counters_, id, labels)) return *known;
  return counters_.emplace_back(CounterRef{id, labels, &registry_.counters(id).Add(merged(labels))});
}

GaugeRef& Series::gauge(FamilyId id, const Labels& labels) {
  if (GaugeRef* known = find(gauges_, id, labels)) return *known;
  return gauges_.emplace_back(GaugeRef{id, labels, &registry_.gauges(id).Add(merged(labels))});
}

HistogramRef& Series::histogram(FamilyId id) {
  if (HistogramRef* known = find(histograms_, id, {})) return *known;
  auto& metric = registry_.histograms(id).Add(base_, histogram_bounds(id));
  return histograms_.emplace_back(HistogramRef{id, {}, &metric});
}

void Series::rebase(const Labels& base) {
  if (base == base_) return;
  base_ = base;
  for (CounterRef& ref : counters_) {
    auto& family = registry_.counters(ref.id);
    auto& moved = family.Add(merged(ref.labels));
    moved.Increment(ref.metric->Value());
    family.Remove(ref.metric);
    ref.metric = &moved;
  }
  for (GaugeRef& ref : gauges_) relabel(ref, ref.labels);
  for (HistogramRef& ref : histograms_) {
    auto& family = registry_.histograms(ref.id);
    auto& moved = family.Add(base_, histogram_bounds(ref.id));
    pour(*ref.metric, moved);
    family.Remove(ref.metric);
    ref.metric = &moved;
  }
}

void Series::relabel(GaugeRef& gauge, const Labels& labels) {
  auto& family = registry_.gauges(gauge.id);
  auto& moved = family.Add(merged(labels));
  if (&moved != gauge.metric) {
    moved.Set(gauge.metric->Value());
    family.Remove(gauge.metric);
  }
  gauge.labels = labels;
  gauge.metric = &moved;
}

Labels Series::merged(const Labels& own) const {
  Labels all = base_;
  all.insert(own.begin(), own.end());
  return all;
}

}  // namespace stepgate::metrics

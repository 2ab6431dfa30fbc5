// Registry: the process's one set of metric families, filled from the catalogue. A family appears on
// the page with its first series and then stays. Series: the series of one gate, each looked up once
// and then held by reference, with the gate's own label added or changed under their feet.
//
// Threads: Collect() from any thread; everything else under page_lock(), which makes an update of
// many series one event for a reader: no page shows half a step. Lock order: the publisher's mutex,
// then the page's, then prometheus-cpp's own.
// Ownership: Publisher owns the Registry; a Registry outlives its Series. References handed out by a
// Series live as long as it does, whatever happens to the labels.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/labels.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "metrics/catalogue.h"

namespace stepgate::metrics {

using Labels = prometheus::Labels;

class Registry final : public prometheus::Collectable {
 public:
  Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  [[nodiscard]] std::unique_lock<std::mutex> page_lock() const { return std::unique_lock(page_mutex_); }

  // Every family as it stands, between two updates.
  std::vector<prometheus::MetricFamily> Collect() const override;

  prometheus::Family<prometheus::Counter>& counters(FamilyId id);
  prometheus::Family<prometheus::Gauge>& gauges(FamilyId id);
  prometheus::Family<prometheus::Histogram>& histograms(FamilyId id);

 private:
  mutable std::mutex page_mutex_;
  prometheus::Registry registry_;
  std::array<void*, kFamilies> families_{};  // Family<T>*, T by the catalogue's type; owned by registry_
};

// What the HTTP page collects from: whatever fails inside is an empty page, since a throw would end
// the job's process in the server's thread. Keeps what it collects alive while a scrape runs.
class Page final : public prometheus::Collectable {
 public:
  explicit Page(std::shared_ptr<const prometheus::Collectable> inside) : inside_(std::move(inside)) {}
  std::vector<prometheus::MetricFamily> Collect() const noexcept override;

 private:
  std::shared_ptr<const prometheus::Collectable> inside_;
};

struct CounterRef {
  FamilyId id;
  Labels labels;  // without the gate's
  prometheus::Counter* metric;
  void add(double n) const {
    if (n > 0) metric->Increment(n);
  }
};
struct GaugeRef {
  FamilyId id;
  Labels labels;
  prometheus::Gauge* metric;
  void set(double v) const { metric->Set(v); }
};
struct HistogramRef {
  FamilyId id;
  Labels labels;
  prometheus::Histogram* metric;
  void observe(double v) const { metric->Observe(v); }
};

class Series {
 public:
  explicit Series(Registry& registry, Labels base = {}) : registry_(registry), base_(std::move(base)) {}
  Series(const Series&) = delete;
  Series& operator=(const Series&) = delete;

  // Created at 0 where they do not exist yet.
  CounterRef& counter(FamilyId id, const Labels& labels = {});
  GaugeRef& gauge(FamilyId id, const Labels& labels = {});
  HistogramRef& histogram(FamilyId id);

  // Moves every series to other base labels (the gate's), values kept.
  void rebase(const Labels& base);
  // Moves one gauge to other labels of its own (an info series whose facts became known).
  void relabel(GaugeRef& gauge, const Labels& labels);
  const Labels& base() const { return base_; }

 private:
  Labels merged(const Labels& own) const;

  Registry& registry_;
  Labels base_;
  std::deque<CounterRef> counters_;  // deques: references stay valid as they grow
  std::deque<GaugeRef> gauges_;
  std::deque<HistogramRef> histograms_;
};

}  // namespace stepgate::metrics

// ObservationFeed: the series of what a job shows beside its gradients. The first names, in the order in
// which they came, have series of their own; the rest are together under name="other".
//
// Thread: the publisher's, under the registry's page lock. Ownership: the SourceFeed; the series outlive it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "metrics/anomaly.h"
#include "metrics/gate_series.h"
#include "metrics/record_source.h"

namespace stepgate::metrics {

class ObservationFeed {
 public:
  ObservationFeed(GateSeries& series, const AnomalyThresholds& thresholds)
      : series_(series), thresholds_(thresholds) {}

  // Takes what is new. Anomalies are appended to *found.
  void poll(RecordSource& source, std::vector<Anomaly>& found);

 private:
  using Key = std::pair<std::string, ObservedPhase>;  // as published

  struct Line {
    GaugeRef* abs_max = nullptr;
    GaugeRef* rms = nullptr;
    GaugeRef* zero_ratio = nullptr;
    GaugeRef* subnormal_ratio = nullptr;
    GaugeRef* absorbed_ratio = nullptr;
    CounterRef* inf = nullptr;
    CounterRef* nan = nullptr;
  };
  // What is known of the source's i-th observation.
  struct Seen {
    Key key;
    std::uint64_t sequence = 0;
    std::uint64_t inf = 0, nan = 0;
    bool stagnant = false;  // reported; until it recovers
  };

  bool any_news() const;
  void admit(const Observation& o);
  void count(const Observation& o, Seen& seen);
  void judge(const Observation& o, Seen& seen, std::vector<Anomaly>& found) const;
  void show(const Key& key, const Observation& together);
  Line& line(const Key& key);

  GateSeries& series_;
  const AnomalyThresholds thresholds_;
  std::vector<Observation> read_;  // buffer, kept
  std::vector<Seen> seen_;         // by place in the source's list
  std::map<Key, Line> lines_;
};

}  // namespace stepgate::metrics

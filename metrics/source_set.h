// SourceSet: the registered sources of a process and the gates they publish as. One gate has no
// `gate` label; with the second all get theirs. At most kMaxGates have a label of their own, the
// rest share gate="other". A gate's series stay after its source has left; a later source with the
// same name goes on with them. Two live sources of one name: the second is "<name>-2".
//
// Thread: under the publisher's mutex; takes the page lock itself. Ownership: the publisher.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "metrics/gate_series.h"
#include "metrics/source_feed.h"

namespace stepgate::metrics {

inline constexpr std::size_t kMaxGates = 8;
inline constexpr const char* kOtherGate = "other";

class SourceSet {
 public:
  SourceSet(Registry& registry, std::size_t bucket_cap, const AnomalyThresholds& thresholds,
            std::function<double()> now);

  void add(RecordSource& source);
  void poll(std::vector<Anomaly>* found);
  // A last look, then never again. Unknown sources are ignored.
  void remove(const RecordSource* source, std::vector<Anomaly>* found);
  void remove_all(std::vector<Anomaly>* found);
  // What concerns the job and no gate is counted with the first gate's.
  void count(const std::vector<Anomaly>& found);

 private:
  struct Gate {
    std::string name;
    std::unique_ptr<GateSeries> series;
    int live = 0;  // sources that feed it
  };
  struct Entry {
    Gate* gate;
    std::unique_ptr<SourceFeed> feed;
  };
  Gate& gate_for(const std::string& wanted);
  Gate& new_gate(const std::string& name);
  Gate* find(const std::string& name);
  void look(Entry& entry, bool last, std::vector<Anomaly>* found);

  Registry& registry_;
  const std::size_t bucket_cap_;
  const AnomalyThresholds thresholds_;
  const std::function<double()> now_;
  std::list<Gate> gates_;  // addresses stay
  std::vector<Entry> entries_;
};

}  // namespace stepgate::metrics

// FakeJob: a JobSource that a test fills. Thread: the test's.
#pragma once

#include "metrics/job_source.h"

namespace stepgate::metrics::test {

class FakeJob : public JobSource {
 public:
  explicit FakeJob(std::size_t ranks) { view_.ranks.resize(ranks); }
  JobRank& rank(std::size_t i) { return view_.ranks[i]; }
  JobView& view() { return view_; }
  void find(int rank) {
    Anomaly a;
    a.kind = AnomalyKind::kSilentRank;
    a.rank = rank;
    anomalies_.push_back(a);
  }

  void read(JobView* view) override { *view = view_; }
  void take_anomalies(std::vector<Anomaly>* found) override {
    found->insert(found->end(), anomalies_.begin(), anomalies_.end());
    anomalies_.clear();
  }

 private:
  JobView view_;
  std::vector<Anomaly> anomalies_;
};

}  // namespace stepgate::metrics::test

// JobFeed: moves the job's series on rank 0's page from what a JobSource knows. The first kRankSeries
// ranks have series of their own; counters of the others add up under rank="other", and the families
// without that label speak of all of them.
//
// Thread: the publisher's; takes the page lock itself. Ownership: the publisher owns the feed, the source
// outlives it. Series stay when the source is gone.
#pragma once

#include <cstddef>
#include <vector>

#include "metrics/anomaly.h"
#include "metrics/job_source.h"
#include "metrics/registry.h"

namespace stepgate::metrics {

inline constexpr std::size_t kRankSeries = 1024;

class JobFeed {
 public:
  JobFeed(Registry& registry, JobSource& source);
  void poll(std::vector<Anomaly>* found);

 private:
  struct RankGauges {
    GaugeRef* up;
    GaugeRef* silent_seconds;
    GaugeRef* last_step;
    GaugeRef* loss_scale;  // nullptr until there is one
    GaugeRef* enforcing;
  };
  struct RankCounters {
    CounterRef* skipped;
    CounterRef* inf;
    CounterRef* nan;
  };
  struct Before {
    std::uint64_t skipped = 0, inf = 0, nan = 0;
  };
  void grow(std::size_t ranks);
  RankCounters counters(const std::string& rank);
  void show(std::size_t rank, const JobRank& r);
  void count(std::size_t rank, const JobRank& r);
  void show_job();

  Registry& registry_;
  JobSource& source_;
  Series series_;
  GaugeRef& up_;
  GaugeRef& silent_;
  CounterRef& dropped_;
  std::vector<RankGauges> gauges_;      // of ranks with series of their own
  std::vector<RankCounters> counters_;  // by rank
  std::vector<Before> before_;
  std::uint64_t dropped_before_ = 0;
  JobView view_;
};

}  // namespace stepgate::metrics

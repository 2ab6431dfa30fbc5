// JobSource: what rank 0 knows of the other ranks, as the metrics layer sees it: the second source of a
// publisher beside the gates' records. Pure interface; the plane implements it, tests make it up.
//
// Thread: one at a time, the publisher's or one that removes it; never waits for the network. A source
// outlives its registration with a Publisher.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "metrics/anomaly.h"

namespace stepgate::metrics {

struct JobRank {
  bool up = false;    // answers
  bool seen = false;  // has ever answered: its figures mean something
  bool silent = false;
  double silent_seconds = 0;
  std::uint64_t reached_step = 0;  // the exchange it has come to
  std::uint64_t last_step = 0;     // decided
  std::uint64_t applied = 0;
  std::array<std::uint64_t, 4> skipped{};  // by Reason - 1
  std::uint64_t local_inf = 0, local_nan = 0;
  double loss_scale = 0;  // 0: none yet
  bool enforcing = false, released = false;
};

struct JobView {
  std::vector<JobRank> ranks;
  std::uint64_t silences = 0;  // begun so far: anomalies of kind silent_rank
  std::uint64_t offenders_lost = 0;
};

class JobSource {
 public:
  virtual ~JobSource() = default;
  virtual void read(JobView* view) = 0;
  // Findings since the last call, appended.
  virtual void take_anomalies(std::vector<Anomaly>* found) = 0;
};

}  // namespace stepgate::metrics

// Board: what rank 0's transport thread has learnt, for those who read it: the publisher, the C API, the
// log. All of it plain data behind one mutex that is held for copies only.
//
// Threads: the writing half from the transport thread, the reading half from any. Lock: mutex_, a leaf.
// Ownership: Plane; outlives the transport thread.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "metrics/job_source.h"
#include "plugin/core/plane/offender_book.h"
#include "plugin/core/plane/roll_call.h"

namespace stepgate::plane {

class Board final : public metrics::JobSource {
 public:
  Board(int world, const Limits& limits, double now) : roll_(world, limits, now) {}

  // ---- transport thread
  void heard(int rank, const Figures& figures, double now);
  // Frames come from other processes: entries beyond the frame's room are cut.
  void take(const Frame& frame, double now);
  void add(const std::vector<Offender>& offenders, std::uint64_t lost);
  void lost(int rank, const std::string& why);
  void left(int rank, double now);
  // One sentence per silence that began.
  std::vector<std::string> judge(double now);

  // ---- any thread
  void read(metrics::JobView* view) override;
  void take_anomalies(std::vector<metrics::Anomaly>* found) override;
  std::vector<Offender> offenders(const std::string& gate, std::uint64_t step) const;

 private:
  mutable std::mutex mutex_;
  RollCall roll_;
  OffenderBook book_;
  std::vector<std::uint64_t> lost_of_;  // by rank: what it had no room to keep, as it last said
  std::vector<metrics::Anomaly> anomalies_;
  std::uint64_t silences_ = 0;
  double judged_at_ = 0;
};

}  // namespace stepgate::plane

// RollCall: what rank 0 knows of every rank, and the judgement who is alive and who is silent. No
// thread, no socket, no clock of its own: the tests drive it with a table of events.
//
//   up       heard within `timeout` seconds, not lost, not gone on purpose
//   silent   for longer than `silent_after` seconds either nothing was heard from the rank (never came,
//            died, was stopped), or the others have come to an exchange that it has not
//
// A rank that said goodbye is neither. A finding is given once when a silence begins.
// Seconds are of any steady clock. Thread: one at a time (Plane's mutex). Ownership: Plane.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "metrics/job_source.h"
#include "plugin/core/plane/report.h"

namespace stepgate::plane {

struct Limits {
  double timeout = 10;       // without a word, until a rank counts as down
  double silent_after = 60;  // until it is an anomaly
};

struct Silence {
  int rank = -1;
  double seconds = 0;
  std::uint64_t reached = 0;  // the last exchange it came to
  std::uint64_t others = 0;   // where the first of the others is
  bool up = false;            // its process answers: it is the job's thread that does not come
  std::string why;            // what ended its link; "" nothing did
};

class RollCall {
 public:
  RollCall(int world, const Limits& limits, double now);

  void heard(int rank, const Figures& figures, double now);
  // Its link broke: dead, or stopped for longer than the link's deadline.
  void lost(int rank, const std::string& why);
  // It ends on purpose.
  void left(int rank, double now);

  // Brings the silences up to date; new ones are appended.
  void judge(double now, std::vector<Silence>* found);
  void fill(double now, metrics::JobView* view) const;

 private:
  struct Entry {
    Figures figures;
    double heard_at = 0;      // of the start, before the first word
    double behind_since = 0;  // while the others are at an exchange that this rank has not come to
    bool ever = false, linked = false, gone = false, behind = false, silent = false;
    std::string why;
  };
  bool up(const Entry& e, double now) const;
  double silence(const Entry& e, double now) const;
  std::uint64_t furthest() const;

  const Limits limits_;
  std::vector<Entry> ranks_;
};

}  // namespace stepgate::plane

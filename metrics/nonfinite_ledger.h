// NonfiniteLedger: shares the non-finite elements of each step out to buckets so that the sum over
// buckets is exact. A step's record says how many there were; the range table says where, but it
// only keeps the newest step, so a step that was overtaken leaves a rest that no bucket claims.
//
// Order: add_step() for a poll's step records, then claim() for its ranges, then close_poll(), which
// returns the rests of steps that had a whole poll to be claimed. Thread: the publisher's.
#pragma once

#include <cstdint>
#include <map>

#include "metrics/bucket_table.h"

namespace stepgate::metrics {

class NonfiniteLedger {
 public:
  void add_step(const StepRecord& record);
  void claim(const RangeRecord& record);
  // last: nothing will be polled any more, return every rest.
  NonfiniteCounts close_poll(bool last);

 private:
  struct Entry {
    NonfiniteCounts left;
    bool old = false;  // has seen the end of a poll
  };
  std::map<std::uint64_t, Entry> steps_;  // only those with something left
};

}  // namespace stepgate::metrics

// ncclGroupStart to ncclGroupEnd of one thread: the depth, the queue and the first error.
//
//   group.begin();
//   group.submit(call);           // queued
//   Outcome o = group.end();      // the outermost one launches them
//
// Thread: one object per thread, used by that thread alone; no lock. Owns the queued calls and with
// them keeps their communicators alive. Whatever end() returns, after the outermost one the group is
// empty and its depth is 0.
#pragma once

#include <vector>

#include "collectives/hostnccl/flight.h"
#include "collectives/hostnccl/outcome.h"

namespace stepgate::hostnccl {

class Group {
 public:
  void begin() noexcept { ++depth_; }
  bool open() const noexcept { return depth_ > 0; }

  // Outside a group: launches the call. Inside: queues it; ncclInvalidArgument where blocking and other
  // communicators meet.
  Outcome submit(Call call);

  // A call that was refused inside a group: the outermost end() starts nothing and returns this.
  void poison(const Outcome& outcome);

  Outcome end();
  // Like end(), but the outermost one forgets the operations instead of starting them.
  Outcome simulate_end();

 private:
  // False: not yet the outermost one, or an error, which is in *outcome.
  bool close(Outcome* outcome, std::vector<Call>* calls);

  int depth_ = 0;
  std::vector<Call> queue_;
  Outcome error_;
};

}  // namespace stepgate::hostnccl

// A collective in flight: one or more strands, of which a window runs at a time, in index order.
// Thread: one at a time (the world's lock). The world owns it; the caller holds it as an sgt_op.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "collectives/ucx/deadline.h"
#include "collectives/ucx/strand.h"

namespace stepgate::transport {

class World;

class Operation {
 public:
  using Start = std::function<Strand(Lane&, uint32_t index)>;
  struct Plan {
    const char* name;
    uint32_t strands = 1;
    uint32_t window = 1;
    Start start;
  };

  Operation(World& world, Fabric& fabric, int rank, Numbering numbering, Plan plan);

  // Resumes every strand whose messages have completed; true if any did. After a failure it does nothing.
  bool advance();
  bool done() const { return running_.empty() && next_ == plan_.strands; }
  const Failure& failure() const { return failure_; }
  int broken_peer() const { return broken_peer_; }
  int waits_for() const;
  const char* name() const { return plan_.name; }

  void cancel();
  // No message is outstanding: buffers and this object may go away.
  bool settled();

  World& world() const { return world_; }

  // Kept by the world: when the operation was last seen to move.
  uint64_t moves() const { return moves_; }
  uint64_t moves_seen = 0;
  Time moved_at = Clock::now();

 private:
  struct Running {
    Lane lane;
    std::unique_ptr<Strand> strand;  // after its lane, so that it is destroyed first
  };
  void launch();
  bool step(Running& running);

  World& world_;
  Fabric& fabric_;
  const int rank_;
  const Numbering numbering_;
  const Plan plan_;
  std::vector<std::unique_ptr<Running>> running_;
  uint32_t next_ = 0;
  uint64_t moves_ = 0;
  Failure failure_;
  int broken_peer_ = -1;
};

}  // namespace stepgate::transport

// A collective in flight: one or more strands, of which a window runs at a time, in index order.
// Thread: one at a time (the world's lock). The world owns it; the caller holds it as an sgt_op.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <vector>

#include "collectives/ucx/deadline.h"
#include "collectives/ucx/strand.h"

namespace stepgate::transport {

class World;

class Operation {
 public:
  // Makes the strand of a slice; a small function object, kept in place.
  class Start {
   public:
    template <typename Function>
    Start(Function function)  // NOLINT(google-explicit-constructor): stands where a lambda is expected
        : call_([](const void* f, Lane& lane, uint32_t index) {
            return (*static_cast<const Function*>(f))(lane, index);
          }) {
      static_assert(sizeof function <= sizeof room_ && std::is_trivially_copyable_v<Function>);
      new (room_) Function(function);
    }
    Strand operator()(Lane& lane, uint32_t index) const { return call_(room_, lane, index); }

   private:
    Strand (*call_)(const void*, Lane&, uint32_t);
    alignas(std::max_align_t) std::byte room_[144];
  };
  struct Plan {
    const char* name;
    uint32_t strands = 1;
    uint32_t window = 1;
    Start start;
  };

  Operation(World& world, Fabric& fabric, FramePool& frames, int rank, Numbering numbering, const Plan& plan);
  // Begins another one in this object, which is done.
  void restart(Numbering numbering, const Plan& plan);

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

  const Numbering& numbering() const { return numbering_; }

  // Kept by the world: when the operation was last seen to move, on this rank or on its peers.
  uint64_t moves() const { return moves_; }
  static constexpr uint64_t kNeverSeen = ~uint64_t{0};
  uint64_t moves_seen = kNeverSeen;
  uint64_t beats_seen = 0;
  Time moved_at{};

 private:
  struct Running {
    Lane lane;
    std::optional<Strand> strand;  // after its lane, so that it is destroyed first
  };
  void launch();
  bool step(Running& running);

  World& world_;
  Fabric& fabric_;
  FramePool& frames_;
  const int rank_;
  Numbering numbering_;
  Plan plan_;
  std::vector<std::unique_ptr<Running>> running_;
  std::unique_ptr<Running> spare_;  // the last that was done, for the next
  uint32_t next_ = 0;
  uint64_t moves_ = 0;
  Failure failure_;
  int broken_peer_ = -1;
};

}  // namespace stepgate::transport

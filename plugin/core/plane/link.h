// Link: the connection between rank 0 and one other rank: a world of two over the transport, in which
// frames are exchanged turn by turn. One world per rank, so that a rank that dies or is stopped breaks
// its own link and no other: a collective over all ranks would stop with the first of them.
//
// The other rank makes the unique id, so the transport's listening thread is in its process: rank 0
// stays with one thread however many ranks there are.
//
// Thread: the plane's. Every wait ends by the transport's deadline; only open() waits at all.
// Ownership: the world; the buffers are the operation's until it is over.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "collectives/ucx/transport.h"
#include "plugin/core/plane/report.h"

namespace stepgate::plane {

enum class Turn { kIdle, kUnderWay, kDone, kBroken };

class Link {
 public:
  // at: 0 is rank 0's end, 1 the other rank's. stop: ends open() early.
  Link(const sgt_table& table, int at, const std::atomic<bool>& stop) : table_(table), at_(at), stop_(stop) {}
  ~Link() { close(); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Meets the other end; false with error() at the deadline, which is that of every later turn too.
  bool open(const sgt_unique_id& id, double seconds);
  // Breaks it: the other end is told at its next look.
  void close();

  // Starts a turn with this frame; false: broken.
  bool begin(const Frame& mine);
  // kDone once, with theirs() valid until the next begin().
  Turn look();
  const Frame& theirs() const { return (*both_)[static_cast<std::size_t>(1 - at_)]; }
  bool usable() const { return world_ != nullptr; }
  const std::string& error() const { return error_; }

 private:
  void fail(const sgt_error& error);

  const sgt_table& table_;
  const int at_;
  const std::atomic<bool>& stop_;
  sgt_world* world_ = nullptr;
  sgt_op* turn_ = nullptr;
  std::unique_ptr<std::array<Frame, 2>> both_ = std::make_unique<std::array<Frame, 2>>();
  std::string error_;
};

}  // namespace stepgate::plane

// A rank's end of the control channel. First the rendezvous (blocking, with a deadline), then a
// non-blocking line to the coordinator that carries failures ahead of the data.
// Thread: one at a time (the world's lock). Throws Error while the world is created, never after.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collectives/ucx/deadline.h"
#include "collectives/ucx/protocol.h"
#include "collectives/ucx/socket.h"

namespace stepgate::transport {

class Control {
 public:
  // Connects and says hello; the answer comes with the first exchange.
  // `arrive_seconds` is how much of the timeout is left for that, all of it if 0; `cancelled` is asked
  // meanwhile, and a true answer refuses the world for everybody.
  Control(const IdLayout& id, int rank, int size, double timeout_seconds, double arrive_seconds = 0,
          std::function<bool()> cancelled = nullptr);

  // Collective: everybody's `mine`, by rank. Ends when the last rank has given its own.
  std::vector<std::string> exchange(const std::string& mine);

  enum class Event { kNone, kQuery, kVerdict, kAllLeft, kLost };
  // What the coordinator has said since the last call; kVerdict fills `verdict`.
  Event poll(Failure* verdict);

  void report(const Failure& failure) { socket_.send(kReport, pack_failure(failure)); }
  void suspect(int rank) { socket_.send(kSuspect, pack(static_cast<int32_t>(rank))); }
  void waits(int rank) { socket_.send(kWaits, pack(static_cast<int32_t>(rank))); }
  void leave() { socket_.send(kLeave, ""); }
  void close() { socket_.close(); }

  int fd() const { return socket_.fd(); }
  in_addr local_address() const { return local_; }

 private:
  std::vector<std::string> accept_blobs(const Frame& frame);
  bool overdue() const;
  void give_way();
  [[noreturn]] void give_up();

  const int rank_;
  const int size_;
  const double timeout_seconds_;
  const std::function<bool()> cancelled_;
  Deadline deadline_;
  FrameSocket socket_;
  in_addr local_{};
  bool lost_ = false;
};

}  // namespace stepgate::transport

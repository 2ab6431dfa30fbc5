// Collectives on a device's memory as they lie on streams: copies out into pinned memory, one host
// function that flies them all together, copies in. All of it is enqueued and the caller goes on.
//
//   Outcome o = StreamFlight::enqueue(calls);
//
// With several streams the host function lies on the first one: it waits for the others by events and
// they for it, so that a group cannot wait for itself. Copies stay on their own streams, and at the end
// every stream is behind the copies of all.
//
// Threads: enqueue in any; the host functions in the driver's, where no driver function is called.
// Locks: order() of every staging, in one order (by address), while it enqueues; use() of the
// communicators inside the host function. Order: per communicator as enqueued, whatever the streams.
// Ownership: an enqueued flight owns itself until its last host function has run; one that was recorded
// into a graph belongs to the staging, because replays come back to it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/hostnccl/flight.h"
#include "collectives/hostnccl/staging.h"

namespace stepgate::hostnccl {

class StreamFlight {
 public:
  // An error from before the host function was enqueued leaves the communicators as they were; after it
  // they are broken. A capture in which this fails is not to be replayed.
  static Outcome enqueue(const std::vector<Call>& calls);
  StreamFlight(const StreamFlight&) = delete;
  StreamFlight& operator=(const StreamFlight&) = delete;

 private:
  struct Piece {
    Call call;       // as the caller asked
    Request staged;  // the same in the pinned buffer, in place
    Extent extent;
    std::size_t lane = 0;
    Staging* staging = nullptr;  // of the call's communicator
    std::byte* buffer = nullptr;
  };
  // A stream as one context sees it, shared by all communicators on it.
  struct Lane {
    cuda::Context context = nullptr;
    cuda::Stream stream = nullptr;
    cuda::Event event = nullptr;
    bool ends = false;  // its last host function is enqueued
  };

  explicit StreamFlight(const Cuda& cuda) : cuda_(cuda) {}

  Outcome prepare(const std::vector<Call>& calls);
  Outcome add(const Call& call);
  std::size_t lane_of(cuda::Context context, cuda::Stream stream);
  void give_buffers_back() noexcept;
  Outcome read_capture();
  Outcome make_events();
  void destroy_events();

  Outcome launch(std::shared_ptr<StreamFlight> self);
  Outcome enqueue_all();
  Outcome copy_out();
  Outcome fetch(const Piece& piece, const void* to, const void* from, std::size_t bytes) const;
  Outcome join_lanes();
  Outcome fork_lanes();
  Outcome copy_in();
  Outcome take_last_places();
  Outcome enqueue_ends();
  void give_up(const Outcome& why);
  template <typename Function>
  Outcome on(const Lane& lane, const char* name, Function function) const;
  Outcome host_function(const Lane& lane, cuda::HostFunction function);

  // In the driver's threads.
  void fly_staged() noexcept;
  void one_less() noexcept;
  void begin() noexcept;
  void end() noexcept;

  const Cuda& cuda_;
  std::vector<std::shared_ptr<Staging>> stagings_;  // by address, each once
  std::vector<Piece> pieces_;
  std::vector<Lane> lanes_;
  std::vector<Call> staged_calls_;
  bool recorded_ = false;             // into a graph
  bool boarded_ = false;              // the collective is enqueued
  bool stranded_ = false;             // nobody tells when the copies are through: the buffers stay out
  std::atomic<std::size_t> left_{0};  // host functions to come, and one for the enqueuer
  std::shared_ptr<StreamFlight> self_;
};

}  // namespace stepgate::hostnccl

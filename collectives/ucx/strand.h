// A collective algorithm, or one slice of it, as a resumable function: it posts messages on its Lane,
// says `co_await lane.all()`, and goes on when they have completed. Nothing blocks and nothing sleeps.
//
//   Strand relay(Lane& lane, ...) {
//     lane.receive(from, p, n, 0);
//     co_await lane.all();
//     lane.send(to, p, n, 0);
//     co_await lane.all();
//   }
//
// Thread: one at a time (the world's lock). Ownership: the lane outlives the strand; buffers must stay
// until the lane is idle or cancelled. A failed message ends the strand: its Failure is on the lane.
#pragma once

#include <coroutine>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "collectives/ucx/error.h"
#include "collectives/ucx/fabric.h"
#include "collectives/ucx/frames.h"

namespace stepgate::transport {

class Mailbox;

// Which operation of a world a message belongs to: the how-many-th collective, the same on all ranks, or the
// how-many-th message from one rank to another, which those two know alone.
struct Numbering {
  uint32_t sequence = 0;
  bool of_pair = false;
};

class Lane {
 public:
  // (numbering, lane) is the same on all ranks that take part, and unique among what is in flight.
  Lane(Fabric& fabric, FramePool& frames, int rank, Numbering numbering, uint32_t lane)
      : fabric_(fabric), frames_(frames), rank_(rank), tag_(first_tag(numbering, lane)) {
    posted_.reserve(kUsual);
  }
  // For another strand, once this one's is done.
  void restart(Numbering numbering, uint32_t lane) { tag_ = first_tag(numbering, lane); }

  void send(int to, const void* data, size_t bytes, uint32_t step);
  void receive(int from, void* data, size_t bytes, uint32_t step);

  // True when nothing posted is outstanding.
  bool settle();
  bool idle() const { return posted_.empty() && mail_.box == nullptr; }
  void cancel();
  const Failure& failure() const { return failure_; }
  // What the strand itself found; broken_peer: see below.
  void fail(Failure failure, int broken_peer = -1) {
    failure_ = std::move(failure);
    broken_peer_ = broken_peer;
  }
  // The rank whose message is outstanding, -1 if none; receives before sends.
  int waits_for() const;
  // The rank whose endpoint refused a message, -1 if none.
  int broken_peer() const { return broken_peer_; }

  struct All {
    Lane& lane;
    bool await_ready() const { return lane.settle() && lane.failure_.status == SGT_OK; }
    void await_suspend(std::coroutine_handle<>) const noexcept {}
    void await_resume() const noexcept {}
  };
  All all() { return All{*this}; }

  // This rank's turn in the mailbox, and then everybody's letters.
  All turn(Mailbox& box, uint32_t ticket) {
    mail_ = {&box, ticket, false};
    return all();
  }
  All letters(Mailbox& box) {
    mail_ = {&box, 0, true};
    return all();
  }

  // Nothing to wait for, but others want to be looked after: `co_await lane.rest()` within long work.
  struct Rest {
    Lane& lane;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<>) const noexcept { lane.resting_ = true; }
    void await_resume() const noexcept {}
  };
  Rest rest() { return Rest{*this}; }
  bool end_rest() { return std::exchange(resting_, false); }

  FramePool& frames() const { return frames_; }

 private:
  struct Posted {
    Request request;
    int peer;
    bool receiving;
    size_t bytes;
  };
  struct Mail {  // what is waited for, if anything is
    Mailbox* box = nullptr;
    uint32_t ticket = 0;
    bool letters = false;
  };
  bool mail_is_here();
  static uint64_t first_tag(Numbering numbering, uint32_t lane) {
    return uint64_t{numbering.of_pair} << 63 | uint64_t{numbering.sequence & 0x7ffffu} << 44 |
           uint64_t{lane & 0xffffu} << 28;
  }
  static uint64_t tag(uint64_t base, uint32_t step, int from) {
    return base | uint64_t{step & 0xfffu} << 16 | static_cast<uint64_t>(from);
  }
  bool finished(Posted& posted);
  void judge(const Posted& posted);

  static constexpr size_t kUsual = 6;  // messages at a time: one allocation, not several

  Fabric& fabric_;
  FramePool& frames_;
  const int rank_;
  uint64_t tag_;
  std::vector<Posted> posted_;
  Mail mail_;
  Failure failure_;
  int broken_peer_ = -1;
  bool resting_ = false;
};

class Strand {
 public:
  struct promise_type {
    // Of every strand the lane is the first parameter.
    template <typename... Others>
    static void* operator new(size_t bytes, Lane& lane, Others&&...) {
      return lane.frames().take(bytes);
    }
    // NOLINTNEXTLINE(misc-new-delete-overloads): of the template above
    static void operator delete(void* frame) { FramePool::give_back(frame); }
    Strand get_return_object() { return Strand(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { error = std::current_exception(); }
    std::exception_ptr error;
  };

  explicit Strand(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Strand(Strand&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Strand& operator=(Strand&&) = delete;
  ~Strand() {
    if (handle_) handle_.destroy();
  }

  bool done() const { return handle_.done(); }
  // Runs to the next co_await; rethrows what the function threw.
  void resume() {
    handle_.resume();
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

}  // namespace stepgate::transport

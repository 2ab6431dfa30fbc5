// Queue: one stream. Its thread runs the work in order, each piece after a random delay, so that an
// order that nobody asked for does not come about by luck.
//
// Threads: push, wait and done from any; work runs on the queue's own. Lock: one per queue, so that
// two streams are ordered by their events alone (ThreadSanitizer then sees a missing one).
// Ownership: shared; events keep the queue that they were recorded on. A queue is empty before its
// last reference goes, and no piece of a queue waits for a point of the same queue.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace stepgate::standin {

class Queue;

// A point in a queue: everything up to the ticket.
struct Point {
  std::shared_ptr<Queue> queue;
  std::uint64_t ticket = 0;

  void wait() const;
  bool done() const;
};

class Queue {
 public:
  Queue(std::uint64_t seed, unsigned max_delay_us);
  ~Queue();  // runs what is left
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Work starts once `after` is reached, and what was pushed before is done.
  std::uint64_t push(std::function<void()> work, std::vector<Point> after = {});
  std::uint64_t last() const;
  void wait(std::uint64_t ticket) const;
  bool done(std::uint64_t ticket) const;

 private:
  struct Piece {
    std::function<void()> work;
    std::vector<Point> after;
  };
  void run();
  void delay();

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<Piece> pieces_;
  std::uint64_t pushed_ = 0, finished_ = 0;
  bool closing_ = false;
  std::mt19937_64 random_;
  unsigned max_delay_us_;
  std::thread thread_;
};

}  // namespace stepgate::standin

#include "tests/standin_cuda/driver/queue.h"

#include <chrono>
#include <utility>

namespace stepgate::standin {

void Point::wait() const {
  if (queue != nullptr) queue->wait(ticket);
}

bool Point::done() const {
  return queue == nullptr || queue->done(ticket);
}

Queue::Queue(std::uint64_t seed, unsigned max_delay_us)
    : random_(seed), max_delay_us_(max_delay_us), thread_([this] { run(); }) {}

Queue::~Queue() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::uint64_t Queue::push(std::function<void()> work, std::vector<Point> after) {
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    pieces_.push_back({std::move(work), std::move(after)});
    ticket = ++pushed_;
  }
  changed_.notify_all();
  return ticket;
}

std::uint64_t Queue::last() const {
  const std::lock_guard lock(mutex_);
  return pushed_;
}

void Queue::wait(std::uint64_t ticket) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return finished_ >= ticket; });
}

bool Queue::done(std::uint64_t ticket) const {
  const std::lock_guard lock(mutex_);
  return finished_ >= ticket;
}

void Queue::delay() {
  if (max_delay_us_ == 0) return;
  const auto us = random_() % (2 * std::uint64_t{max_delay_us_});
  if (us < max_delay_us_) std::this_thread::sleep_for(std::chrono::microseconds(us));
}

void Queue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || !pieces_.empty(); });
    if (pieces_.empty()) return;
    Piece piece = std::move(pieces_.front());
    pieces_.pop_front();
    lock.unlock();
    for (const Point& p : piece.after) p.wait();
    delay();
    if (piece.work) piece.work();
    piece = {};
    lock.lock();
    ++finished_;
    changed_.notify_all();
  }
}

}  // namespace stepgate::standin

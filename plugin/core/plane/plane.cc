#include "plugin/core/plane/plane.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "metrics/signal_guard.h"
#include "plugin/core/plane/sockets.h"

namespace stepgate::plane {
namespace {

constexpr double kRest = 0.02;        // between two looks while nothing moves
constexpr double kShortRest = 0.001;  // while something does
constexpr double kShare = 10;         // rest so many times as long as a look took: a tenth of a core at most
constexpr double kLongestRest = 0.2;
constexpr double kRetry = 5;  // before the seat is tried again: a port that is taken, say
constexpr double kGoodbye = 0.5;

}  // namespace

Plane::Plane(PlaneOptions options, const gate::Log& log)
    : options_(std::move(options)),
      log_(log),
      owner_(::getpid()),
      board_(options_.seat.world, options_.limits, steady_seconds()) {}

Plane::~Plane() = default;

void Plane::start() {
  const metrics::SignalGuard guard;  // the job's signals stay the job's
  try {
    thread_ = std::thread([this] { loop(); });
  } catch (const std::exception& e) {
    log_.warn(std::string("the plane's thread cannot start: ") + e.what() + "; the plane stays off");
  }
}

bool Plane::stop(double seconds) noexcept {
  if (::getpid() != owner_) return false;
  stop_ = true;
  if (!thread_.joinable()) return true;
  {
    std::unique_lock lock(mutex_);
    woken_.notify_all();
    woken_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return done_; });
    if (!done_) {
      thread_.detach();
      return false;
    }
  }
  thread_.join();
  return true;
}

// Nothing that goes wrong in here may reach the thread's end: that would end the job's process.
void Plane::loop() noexcept {
  try {
    run();
  } catch (const std::exception& e) {
    log_.warn(std::string("the plane ends: ") + e.what());
  } catch (...) {
    log_.warn("the plane ends: unknown failure");
  }
  const std::lock_guard lock(mutex_);
  done_ = true;
  woken_.notify_all();
}

void Plane::rest(double seconds) {
  std::unique_lock lock(mutex_);
  woken_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return stop_.load(); });
}

// nullptr once told to stop. Rank 0's own port may be held by the run before this one for a while.
std::unique_ptr<Side> Plane::take_seat() {
  std::string error;
  const sgt_table* table = options_.transport(&error);
  if (table == nullptr) {
    log_.warn("the plane stays off: " + error);
    return nullptr;
  }
  const Say say = [this](const std::string& line) { log_.warn(line); };
  if (!leads()) return std::make_unique<Spoke>(options_.seat, *table, sampler_, stop_, say);
  bool said = false;
  while (!stop_) {
    try {
      return std::make_unique<Hub>(options_.seat, *table, sampler_, board_, stop_, say);
    } catch (const std::exception& e) {
      if (!said) log_.warn(std::string("the plane waits: ") + e.what());
      said = true;
    }
    rest(kRetry);
  }
  return nullptr;
}

void Plane::run() {
  std::unique_ptr<Side> side = take_seat();
  if (side == nullptr) return;
  while (!stop_) {
    const double began = steady_seconds();
    const bool moved = side->tick(began);
    rest(std::clamp(kShare * (steady_seconds() - began), moved ? kShortRest : kRest, kLongestRest));
  }
  const double until = steady_seconds() + kGoodbye;
  while (!side->leave(steady_seconds()) && steady_seconds() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  side->forsake();
}

}  // namespace stepgate::plane

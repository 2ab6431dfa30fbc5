#include "plugin/core/timed_call.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "collectives/signals/blocked_signals.h"

namespace stepgate::gate {
namespace {

struct Rendezvous {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
};

}  // namespace

bool run_with_deadline(const std::function<void()>& call, std::chrono::duration<double> limit) {
  const auto meeting = std::make_shared<Rendezvous>();
  std::thread worker;
  try {
    const signals::BlockedSignals blocked;
    worker = std::thread([meeting, call] {
      call();
      const std::lock_guard lock(meeting->mutex);
      meeting->done = true;
      meeting->changed.notify_all();
    });
  } catch (const std::system_error&) {
    call();
    return true;
  }
  std::unique_lock lock(meeting->mutex);
  const bool in_time = meeting->changed.wait_for(lock, limit, [&] { return meeting->done; });
  lock.unlock();
  if (in_time) {
    worker.join();
  } else {
    worker.detach();
  }
  return in_time;
}

}  // namespace stepgate::gate

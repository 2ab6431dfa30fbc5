#include "plugin/core/plane/fork_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

namespace stepgate::plane {
namespace {

constexpr int kNone = 0;  // descriptor + 1, so that zero means an empty place
std::atomic<int> places[16];

void in_child() {
  for (std::atomic<int>& place : places) {
    const int fd = place.exchange(kNone, std::memory_order_relaxed) - 1;
    if (fd >= 0) ::close(fd);
  }
}

}  // namespace

bool close_in_children(int fd) noexcept {
  static std::once_flag once;
  std::call_once(once, [] { ::pthread_atfork(nullptr, nullptr, in_child); });
  for (std::atomic<int>& place : places) {
    int empty = kNone;
    if (place.compare_exchange_strong(empty, fd + 1)) return true;
  }
  return false;
}

void keep_in_children(int fd) noexcept {
  for (std::atomic<int>& place : places) {
    int mine = fd + 1;
    if (place.compare_exchange_strong(mine, kNone)) return;
  }
}

}  // namespace stepgate::plane

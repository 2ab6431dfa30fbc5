#include "collectives/ucx/process_guard.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

#include "collectives/ucx/error.h"

namespace stepgate::transport {
namespace {

std::atomic<bool> g_armed{false};
std::atomic<bool> g_forked{false};

void in_child() {
  if (g_armed.load(std::memory_order_relaxed)) g_forked.store(true, std::memory_order_relaxed);
}

}  // namespace

void arm_process_guard() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (pthread_atfork(nullptr, nullptr, in_child) != 0)
      throw Error(SGT_SYSTEM, "pthread_atfork failed: children could not be kept out of the transport");
    g_armed.store(true);
  });
}

bool forked() noexcept {
  return g_forked.load(std::memory_order_relaxed);
}

}  // namespace stepgate::transport

#include "tests/collectives/hostnccl/scarce_threads.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <climits>

namespace {

std::atomic<int> threads_left{INT_MAX};

bool take_a_thread() {
  int left = threads_left;
  while (left > 0 && left != INT_MAX && !threads_left.compare_exchange_weak(left, left - 1)) {
  }
  return left > 0;
}

}  // namespace

// Visible, so that libstdc++ and the built objects call it too.
extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*work)(void*),
                                                                     void* argument) noexcept {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return take_a_thread() ? real(thread, attributes, work, argument) : EAGAIN;
}

namespace stepgate::hostnccl::test {

ScarceThreads::ScarceThreads(int left) {
  threads_left = left;
}

ScarceThreads::~ScarceThreads() {
  threads_left = INT_MAX;
}

}  // namespace stepgate::hostnccl::test

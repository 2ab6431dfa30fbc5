// Fiber: a function on a stack of its own, switched to and from by hand, with what AddressSanitizer
// and ThreadSanitizer must be told about it.
//
// A switch orders nothing in ThreadSanitizer's eyes: only barriers and fences of the code that runs in
// the fibers do (synchronizes_*), so that a missing one shows as a race.
//
// Thread: a fiber lives and dies in the OS thread that started it. Lock: none. Ownership: the stack is
// the caller's and outlives the fiber.
#pragma once

#include <cstddef>

#if !defined(STEPGATE_STANDIN_UCONTEXT)
#include <boost/context/detail/fcontext.hpp>
#else
#include <ucontext.h>
#endif

namespace stepgate::standin {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr std::size_t kStackBytes = 256 << 10;
#else
inline constexpr std::size_t kStackBytes = 64 << 10;
#endif

class Fiber {
 public:
  using Entry = void (*)(void* argument);

  Fiber() = default;
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // `stack`: kStackBytes of it. Runs nothing yet.
  void prepare(char* stack, Entry entry, void* argument);
  // From the thread's own stack: runs the fiber until it yields or ends.
  void resume();
  // From inside the fiber: back to whom resumed it.
  void yield() { leave(false); }
  bool done() const { return done_; }

 private:
  void run();
  void leave(bool for_good);
  void switch_in();
  void switch_out();
#if !defined(STEPGATE_STANDIN_UCONTEXT)
  static void begin(boost::context::detail::transfer_t from);
  boost::context::detail::fcontext_t inside_ = nullptr;
  boost::context::detail::fcontext_t outside_ = nullptr;
#else
  static void begin(unsigned high, unsigned low);
  ucontext_t inside_ = {};
  ucontext_t outside_ = {};
#endif
  char* stack_ = nullptr;
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
  bool done_ = false;
  // Sanitizers' handles.
  void* tsan_inside_ = nullptr;
  void* tsan_outside_ = nullptr;
  void* asan_inside_ = nullptr;
  void* asan_outside_ = nullptr;
  const void* outside_stack_ = nullptr;
  std::size_t outside_stack_bytes_ = 0;
};

// What was done before a release on `tag` is seen after an acquire on it. Nothing without
// ThreadSanitizer.
void synchronizes_release(void* tag);
void synchronizes_acquire(void* tag);

}  // namespace stepgate::standin

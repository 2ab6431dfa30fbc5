// Compiled without ThreadSanitizer's instrumentation: the machinery must not order what it runs.
#include "tests/standin_cuda/fiber.h"

#include <cstdint>
#include <cstdlib>

#if defined(STEPGATE_STANDIN_TSAN)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* tag);
void __tsan_release(void* tag);
}
#endif
#if defined(__SANITIZE_ADDRESS__)
extern "C" {
void __sanitizer_start_switch_fiber(void** save, const void* bottom, std::size_t size);
void __sanitizer_finish_switch_fiber(void* saved, const void** bottom, std::size_t* size);
void __asan_unpoison_memory_region(const volatile void* memory, std::size_t size);
}
#endif

namespace stepgate::standin {
namespace {

#if defined(STEPGATE_STANDIN_TSAN)
constexpr unsigned kNoSync = 1;
void* tsan_current() {
  return __tsan_get_current_fiber();
}
void* tsan_create() {
  return __tsan_create_fiber(0);
}
void tsan_destroy(void* fiber) {
  __tsan_destroy_fiber(fiber);
}
void tsan_switch(void* fiber) {
  __tsan_switch_to_fiber(fiber, kNoSync);
}
#else
void* tsan_current() {
  return nullptr;
}
void* tsan_create() {
  return nullptr;
}
void tsan_destroy(void*) {}
void tsan_switch(void*) {}
#endif

#if defined(__SANITIZE_ADDRESS__)
void asan_start(void** save, const void* bottom, std::size_t size) {
  __sanitizer_start_switch_fiber(save, bottom, size);
}
void asan_finish(void* saved, const void** bottom, std::size_t* size) {
  __sanitizer_finish_switch_fiber(saved, bottom, size);
}
void asan_forget(char* stack) {
  __asan_unpoison_memory_region(stack, kStackBytes);
}
#else
void asan_start(void**, const void*, std::size_t) {}
void asan_finish(void*, const void**, std::size_t*) {}
void asan_forget(char*) {}
#endif

}  // namespace

void synchronizes_release([[maybe_unused]] void* tag) {
#if defined(STEPGATE_STANDIN_TSAN)
  __tsan_release(tag);
#endif
}

void synchronizes_acquire([[maybe_unused]] void* tag) {
#if defined(STEPGATE_STANDIN_TSAN)
  __tsan_acquire(tag);
#endif
}

Fiber::~Fiber() {
  if (tsan_inside_ != nullptr) tsan_destroy(tsan_inside_);
}

void Fiber::prepare(char* stack, Entry entry, void* argument) {
  stack_ = stack;
  entry_ = entry;
  argument_ = argument;
  done_ = false;
  asan_inside_ = nullptr;
  asan_forget(stack);  // the last fiber on it never returned from its outermost frames
  // Kept from block to block: those of one OS thread follow one another anyway, and it is dear to make.
  if (tsan_inside_ == nullptr) tsan_inside_ = tsan_create();
#if !defined(STEPGATE_STANDIN_UCONTEXT)
  inside_ = boost::context::detail::make_fcontext(stack + kStackBytes, kStackBytes, begin);
#else
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack;
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  makecontext(&inside_, reinterpret_cast<void (*)()>(begin), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
#endif
}

#if !defined(STEPGATE_STANDIN_UCONTEXT)
void Fiber::begin(boost::context::detail::transfer_t from) {
  auto* self = static_cast<Fiber*>(from.data);
  self->outside_ = from.fctx;
  self->run();
}
void Fiber::switch_in() {
  inside_ = boost::context::detail::jump_fcontext(inside_, this).fctx;
}
void Fiber::switch_out() {
  outside_ = boost::context::detail::jump_fcontext(outside_, nullptr).fctx;
}
#else
void Fiber::begin(unsigned high, unsigned low) {
  reinterpret_cast<Fiber*>((std::uintptr_t{high} << 32) | low)->run();
}
void Fiber::switch_in() {
  swapcontext(&outside_, &inside_);
}
void Fiber::switch_out() {
  swapcontext(&inside_, &outside_);
}
#endif

void Fiber::run() {
  asan_finish(nullptr, &outside_stack_, &outside_stack_bytes_);
  entry_(argument_);
  leave(true);
  std::abort();  // a fiber that is done is not resumed
}

void Fiber::resume() {
  tsan_outside_ = tsan_current();
  tsan_switch(tsan_inside_);
  asan_start(&asan_outside_, stack_, kStackBytes);
  switch_in();
  asan_finish(asan_outside_, nullptr, nullptr);
}

void Fiber::leave(bool for_good) {
  done_ = for_good;
  tsan_switch(tsan_outside_);
  asan_start(for_good ? nullptr : &asan_inside_, outside_stack_, outside_stack_bytes_);
  switch_out();
  asan_finish(asan_inside_, nullptr, nullptr);
}

}  // namespace stepgate::standin

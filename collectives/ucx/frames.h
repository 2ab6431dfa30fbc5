// Memory for coroutine frames, kept from one collective to the next: short ones would spend a good part of
// their time in malloc. Thread: one at a time (the world's lock). Ownership: the pool outlives its frames.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

namespace stepgate::transport {

class FramePool {
 public:
  FramePool() = default;
  ~FramePool() { std::free(kept_); }
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  void* take(size_t bytes) {
    Header* header = kept_ != nullptr && kept_->capacity >= bytes ? kept_ : fresh(bytes);
    if (header == kept_) kept_ = nullptr;
    return header + 1;
  }
  static void give_back(void* frame) {
    Header* header = static_cast<Header*>(frame) - 1;
    FramePool& pool = *header->pool;
    if (pool.kept_ == nullptr || pool.kept_->capacity < header->capacity) std::swap(pool.kept_, header);
    std::free(header);
  }

 private:
  struct alignas(std::max_align_t) Header {
    FramePool* pool;
    size_t capacity;
  };
  Header* fresh(size_t bytes) {
    void* memory = std::malloc(sizeof(Header) + bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return new (memory) Header{this, bytes};
  }

  Header* kept_ = nullptr;  // the largest that came back; collectives come one after the other
};

}  // namespace stepgate::transport

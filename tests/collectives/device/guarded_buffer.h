// GuardedBuffer: memory between two pages that fault on any access, so that one byte read or written
// outside it ends the test.
//
// Thread: any one. Ownership: unmapped by the destructor.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <stdexcept>

namespace stepgate::test {

class GuardedBuffer {
 public:
  enum class Against { kFront, kBack };  // which guard page the bytes touch

  GuardedBuffer(std::size_t bytes, Against side) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    const std::size_t inner = (bytes + page_ - 1) / page_ * page_;
    mapped_ = inner + 2 * page_;
    base_ = static_cast<unsigned char*>(
        mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (base_ == MAP_FAILED) throw std::runtime_error("GuardedBuffer: mmap failed");
    if (inner != 0 && mprotect(base_ + page_, inner, PROT_READ | PROT_WRITE) != 0) {
      throw std::runtime_error("GuardedBuffer: mprotect failed");
    }
    data_ = base_ + page_ + (side == Against::kBack ? inner - bytes : 0);
  }
  ~GuardedBuffer() { munmap(base_, mapped_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  unsigned char* data() const { return data_; }

 private:
  std::size_t page_;
  std::size_t mapped_ = 0;
  unsigned char* base_ = nullptr;
  unsigned char* data_ = nullptr;
};

}  // namespace stepgate::test

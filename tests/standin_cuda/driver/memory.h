// Memory: the stand-in's device and pinned allocations, and who may touch device memory when.
//
// Threads: any. Lock: its own. With the guard, device memory has access rights only while an
// operation runs (mprotect speaks of the whole process). Without it, it is heap memory with
// AddressSanitizer's red zones at both ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "tests/standin_cuda/driver/control.h"

namespace stepgate::standin {

enum class Kind { kDevice, kPinned, kManaged, kRegistered };

struct Block {
  Kind kind = Kind::kDevice;
  int device = 0;
  std::size_t bytes = 0;
  std::size_t mapped = 0;  // 0: heap
};

class Memory {
 public:
  void set_guard(bool on);
  void* allocate(Kind kind, int device, std::size_t bytes);
  // Host memory of the caller's, which stays the caller's. False where some of it is known already.
  bool adopt(int device, void* memory, std::size_t bytes);
  // False for what is no allocation of this kind.
  bool release(Kind kind, void* memory);
  // The block that holds the address.
  bool find(const void* address, Block* block, std::uintptr_t* start) const;
  void count(Account* account) const;

  // Around every kernel and copy.
  void open();
  void close();

 private:
  void protect_locked(int rights);

  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Block> blocks_;
  bool guard_ = false;
  int running_ = 0;
};

// RAII for open() and close().
class Access {
 public:
  explicit Access(Memory& memory) : memory_(memory) { memory_.open(); }
  ~Access() { memory_.close(); }
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

 private:
  Memory& memory_;
};

}  // namespace stepgate::standin

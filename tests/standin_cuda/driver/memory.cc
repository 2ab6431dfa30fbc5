#include "tests/standin_cuda/driver/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <iterator>

namespace stepgate::standin {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kDeviceBytes = std::size_t{16} << 30;  // what a device of ours has
constexpr unsigned char kFresh = 0xcd;                       // nobody may count on zeros

std::size_t rounded(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

void* map_pages(std::size_t bytes, int rights) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  std::memset(p, kFresh, bytes);
  mprotect(p, bytes, rights);
  return p;
}

void* heap(std::size_t bytes) {
  void* p = std::aligned_alloc(kAlignment, rounded(bytes, kAlignment));
  if (p != nullptr) std::memset(p, kFresh, bytes);
  return p;
}

}  // namespace

void Memory::set_guard(bool on) {
  const std::lock_guard lock(mutex_);
  guard_ = on;
}

void* Memory::allocate(Kind kind, int device, std::size_t bytes) {
  if (bytes == 0 || bytes > kDeviceBytes) return nullptr;
  const std::lock_guard lock(mutex_);
  Block block{kind, device, bytes, 0};
  if (guard_ && kind == Kind::kDevice) block.mapped = rounded(bytes, kPage);
  const int rights = running_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
  void* memory = block.mapped != 0 ? map_pages(block.mapped, rights) : heap(bytes);
  if (memory != nullptr) blocks_[reinterpret_cast<std::uintptr_t>(memory)] = block;
  return memory;
}

bool Memory::adopt(int device, void* memory, std::size_t bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const std::lock_guard lock(mutex_);
  const auto next = blocks_.lower_bound(start);
  if (next != blocks_.end() && next->first - start < bytes) return false;
  if (next != blocks_.begin()) {
    const auto& [before, block] = *std::prev(next);
    if (start - before < block.bytes) return false;
  }
  blocks_[start] = {Kind::kRegistered, device, bytes, 0};
  return true;
}

bool Memory::release(Kind kind, void* memory) {
  const std::lock_guard lock(mutex_);
  const auto it = blocks_.find(reinterpret_cast<std::uintptr_t>(memory));
  if (it == blocks_.end() || it->second.kind != kind) return false;
  if (it->second.mapped != 0) {
    munmap(memory, it->second.mapped);
  } else if (kind != Kind::kRegistered) {
    std::free(memory);
  }
  blocks_.erase(it);
  return true;
}

bool Memory::find(const void* address, Block* block, std::uintptr_t* start) const {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  auto it = blocks_.upper_bound(wanted);
  if (it == blocks_.begin()) return false;
  --it;
  if (wanted - it->first >= it->second.bytes) return false;
  *block = it->second;
  *start = it->first;
  return true;
}

void Memory::count(Account* account) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [start, block] : blocks_) {
    const bool device = block.kind == Kind::kDevice || block.kind == Kind::kManaged;
    (device ? account->device_blocks : account->pinned_blocks) += 1;
    (device ? account->device_bytes : account->pinned_bytes) += static_cast<std::int64_t>(block.bytes);
  }
}

void Memory::protect_locked(int rights) {
  for (const auto& [start, block] : blocks_) {
    if (block.mapped != 0) mprotect(reinterpret_cast<void*>(start), block.mapped, rights);
  }
}

// Without the guard no lock is taken: it would order streams that nothing else orders.
void Memory::open() {
  if (!guard_) return;
  const std::lock_guard lock(mutex_);
  if (running_++ == 0) protect_locked(PROT_READ | PROT_WRITE);
}

void Memory::close() {
  if (!guard_) return;
  const std::lock_guard lock(mutex_);
  if (--running_ == 0) protect_locked(PROT_NONE);
}

}  // namespace stepgate::standin

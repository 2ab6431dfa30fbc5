// Buffers that collectives borrow and give back, so that a step does not pay for fresh pages each time.
// Thread: one at a time (the world's lock). The pool outlives its loans.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace stepgate::transport {

class ScratchPool {
 public:
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    size_t capacity = 0;
  };

  Block take(size_t bytes) {
    const auto it =
        std::find_if(free_.begin(), free_.end(), [bytes](const Block& b) { return b.capacity >= bytes; });
    if (it == free_.end()) return {std::unique_ptr<std::byte[]>(new std::byte[bytes]), bytes};
    Block block = std::move(*it);
    free_.erase(it);
    return block;
  }
  void give_back(Block block) {
    if (free_.size() < kKept) free_.push_back(std::move(block));
  }

 private:
  static constexpr size_t kKept = 32;
  std::vector<Block> free_;
};

class Scratch {
 public:
  Scratch(ScratchPool& pool, size_t bytes) : pool_(pool), block_(pool.take(bytes)) {}
  ~Scratch() { pool_.give_back(std::move(block_)); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* data() const { return block_.bytes.get(); }

 private:
  ScratchPool& pool_;
  ScratchPool::Block block_;
};

}  // namespace stepgate::transport

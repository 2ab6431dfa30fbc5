// Memory that the ranks of one host share: one rank makes it, the others open it by that rank's process and
// descriptor. It has no name anywhere, so nothing is left behind by ranks that die.
//
// Thread, lock: none of its own. Order: make() or open(), then forget_descriptor() when all have it.
// Ownership: the mapping and the descriptor are this object's; a forked child does not inherit the mapping.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/ucx/socket.h"

namespace stepgate::transport {

class SharedPages {
 public:
  SharedPages() = default;
  ~SharedPages();
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;

  // Zeroed and allocated, so that a full memory shows here and not as a signal later. False: not to be had.
  bool make(size_t bytes);
  // What `process` made. False: it cannot be reached, or is smaller.
  bool open(int64_t process, int descriptor, size_t bytes);

  // -1 where there is none.
  int descriptor() const { return memory_.get(); }
  void forget_descriptor() { memory_.reset(); }
  std::byte* data() const { return data_; }

 private:
  bool map(const Fd& memory, size_t bytes);

  Fd memory_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace stepgate::transport

#include "collectives/ucx/peer_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>

namespace stepgate::transport {
namespace {

// Not 0, which is what withdraw() leaves.
uint64_t random_word() {
  std::random_device device;
  return uint64_t{device()} << 32 | device() | 1;
}

iovec piece(uint64_t address, size_t bytes) {
  return {reinterpret_cast<void*>(address), bytes};
}

}  // namespace

PeerMemory::PeerMemory() : secret_(random_word()), word_(secret_) {}

PeerMemory::Card PeerMemory::card() const {
  return {getpid(), reinterpret_cast<uint64_t>(&word_), secret_};
}

bool PeerMemory::introduce(std::vector<Card> cards) {
  cards_ = std::move(cards);
  return reads_all();
}

bool PeerMemory::reads_all() const {
  const auto readable = [this](const Card& card) {
    uint64_t copy = 0;
    return read(static_cast<int>(&card - cards_.data()), card.address, &copy, sizeof copy) == 0 &&
           copy == card.word;
  };
  return std::all_of(cards_.begin(), cards_.end(), readable);
}

// Both ends: the kernel looks at whole mappings, but for pages that nobody has touched yet.
bool PeerMemory::lends(const void* buffer, size_t bytes) {
  char copy[2];
  const auto begin = reinterpret_cast<uint64_t>(buffer);
  const iovec here[] = {{copy, sizeof copy}};
  const iovec there[] = {piece(begin, 1), piece(begin + bytes - 1, 1)};
  return process_vm_readv(getpid(), here, 1, there, 2, 0) == static_cast<ssize_t>(sizeof copy);
}

int PeerMemory::read(int rank, uint64_t address, void* to, size_t bytes) const {
  const Card& card = cards_[static_cast<size_t>(rank)];
  uint64_t word = 0;
  const iovec here[] = {{to, bytes}, {&word, sizeof word}};
  const iovec there[] = {piece(address, bytes), piece(card.address, sizeof word)};  // read in this order
  const auto wanted = static_cast<ssize_t>(bytes + sizeof word);
  const ssize_t came = process_vm_readv(static_cast<pid_t>(card.process), here, 2, there, 2, 0);
  if (came < 0) return errno;
  if (came != wanted) return EFAULT;  // from there on nothing is mapped
  return word == card.word ? 0 : kTakenBack;
}

void PeerMemory::withdraw() {
  // Nothing that is written later may be seen before it; on arm64 an exchange alone does not promise that.
#if defined(__SANITIZE_THREAD__)  // knows no fences
  word_.exchange(0);
#else
  word_.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace stepgate::transport

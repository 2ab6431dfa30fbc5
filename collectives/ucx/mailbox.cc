#include "collectives/ucx/mailbox.h"

#include <unistd.h>

#include <cstring>
#include <random>

namespace stepgate::transport {

static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free,
              "processes share these");

namespace {

// What this rank has stored is seen before anything that it loads from here on.
void order([[maybe_unused]] std::atomic<uint32_t>& own) {
#if defined(__SANITIZE_THREAD__)  // knows no fences
  own.fetch_add(0);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

Mailbox::Mailbox(Place place) : place_(place) {
  if (place_.rank != 0 || !pages_.make(bytes())) return;
  std::random_device device;
  secret_ = uint64_t{device()} << 32 | device() | 1;
  hall().secret.store(secret_, std::memory_order_release);
}

Mailbox::Card Mailbox::card() const {
  const bool ready = bell_.open() && (place_.rank != 0 || pages_.data() != nullptr);
  return {getpid(), pages_.descriptor(), ready ? 1u : 0u, secret_, bell_.name()};
}

// The secret tells a descriptor of the same number in another process from the one that is meant.
bool Mailbox::attach(const std::vector<Card>& cards) {
  for (const Card& card : cards)
    if (card.ready == 0) return false;
  if (place_.rank != 0 && !pages_.open(cards[0].process, cards[0].memory, bytes())) return false;
  if (hall().secret.load(std::memory_order_acquire) != cards[0].secret) return false;
  for (const Card& card : cards) {
    if (!bell_.ring(card.bell)) return false;
    bells_.push_back(card.bell);
  }
  return true;
}

void Mailbox::post(const Head& head, const void* body, size_t bytes) {
  Slot& mine = slot(place_.rank);
  mine.head = head;
  if (bytes != 0) std::memcpy(mine.body, body, bytes);
  mine.stamp.store(step_ + 1, std::memory_order_seq_cst);  // before the look for sleepers
  posted_ = true;
}

bool Mailbox::arrived() {
  const auto here = [this](int rank) {
    return rank == place_.rank || slot(rank).stamp.load(std::memory_order_acquire) == step_ + 1;
  };
  while (missing_ < place_.size && here(missing_)) ++missing_;
  return missing_ == place_.size;
}

void Mailbox::next() {
  ++step_;
  missing_ = 0;
  posted_ = false;
}

// Who dozes off after the letter was posted sees it before it sleeps; who did before is seen here.
void Mailbox::wake_sleepers() {
  for (int rank = 0; rank < place_.size; ++rank) {
    std::atomic<uint32_t>& asleep = hall().desks[rank].asleep;
    if (rank == place_.rank || asleep.load(std::memory_order_seq_cst) == 0) continue;
    if (asleep.exchange(0) != 0) bell_.ring(bells_[static_cast<size_t>(rank)]);
  }
}

bool Mailbox::doze() {
  std::atomic<uint32_t>& asleep = hall().desks[place_.rank].asleep;
  asleep.store(1, std::memory_order_relaxed);
  order(asleep);
  return !(posted_ && arrived());
}

void Mailbox::rouse() {
  hall().desks[place_.rank].asleep.store(0, std::memory_order_relaxed);
  bell_.silence();
}

void Mailbox::beat(uint32_t sequence, uint32_t moves) {
  hall().desks[place_.rank].beat.store(uint64_t{sequence} << 32 | moves, std::memory_order_relaxed);
}

// The sum serves: numbers only grow, but for those that start over with a later collective.
uint64_t Mailbox::beats_up_to(uint32_t sequence) const {
  uint64_t sum = 0;
  for (int rank = 0; rank < place_.size; ++rank) {
    const uint64_t beat = hall().desks[rank].beat.load(std::memory_order_relaxed);
    const bool later = static_cast<int32_t>(static_cast<uint32_t>(beat >> 32) - sequence) > 0;
    if (rank != place_.rank && !later) sum += beat;
  }
  return sum;
}

}  // namespace stepgate::transport

// Letters between the ranks of one host through memory that they share: in each step every rank posts one and
// reads all. A short all-reduce is one step, a long one begins with one.
//
//   const uint32_t ticket = box.take_ticket();   // in the order in which the collectives start
//   if (box.turn(ticket)) box.post(head, data, bytes);
//   if (box.arrived()) { ... box.head(rank), box.body(rank) ...; box.next(); }
//
// Each rank has two places, used in turn. A rank posts a step when it has read all letters of the step
// before, so whoever posts step n has seen everybody's letter of step n - 1, and they had read step n - 2:
// the place is free. No lock and no wait, but for others' letters.
//
// A rank that sleeps says so in the memory first; who posts rings at those that do.
//
// Thread: one at a time (the world's lock), rouse() without it; other processes read and write at any moment.
// Order: card() of all, attach(), and use it once every rank has attached. Ownership: the memory is shared
// and goes with the last rank; what body() gives is valid until next().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/ucx/algorithms.h"
#include "collectives/ucx/doorbell.h"
#include "collectives/ucx/shared_pages.h"

namespace stepgate::transport {

class Mailbox {
 public:
  static constexpr int kMostRanks = 16;
  static constexpr size_t kRoom = 32 * 1024;  // bytes of one letter's body

  struct Card {
    int64_t process;
    int32_t memory;  // descriptor of rank 0's
    uint32_t ready;  // the rank has what it needs
    uint64_t secret;
    Doorbell::Name bell;
  };
  // What the ranks compare before they believe a body.
  struct Head {
    uint64_t count;
    uint32_t kind;
    uint32_t sequence;
  };

  explicit Mailbox(Place place);

  Card card() const;
  // By rank. False: some rank's memory or bell cannot be reached.
  bool attach(const std::vector<Card>& cards);
  void all_attached() { pages_.forget_descriptor(); }

  uint32_t take_ticket() { return tickets_++; }
  bool turn(uint32_t ticket) const { return ticket == step_ && !posted_; }
  void post(const Head& head, const void* body, size_t bytes);
  // Rings at those who sleep. Once after each post(), early enough for them.
  void wake_sleepers();
  bool arrived();
  // The lowest rank whose letter is not there yet.
  int missing() const { return missing_; }
  const Head& head(int rank) const { return slot(rank).head; }
  const std::byte* body(int rank) const { return slot(rank).body; }
  void next();

  // What this rank is at: peers that wait see that it moves. `sequence`: of the collective.
  void beat(uint32_t sequence, uint32_t moves);
  // Another number whenever another rank has moved in this collective or an earlier one.
  uint64_t beats_up_to(uint32_t sequence) const;

  // False: there is something to do, do not sleep. After a sleep, or instead of it: rouse().
  bool doze();
  void rouse();
  int fd() const { return bell_.fd(); }

 private:
  struct Desk {
    alignas(64) std::atomic<uint32_t> asleep;
    alignas(64) std::atomic<uint64_t> beat;
  };
  struct Slot {
    alignas(128) std::atomic<uint32_t> stamp;  // the step's number, from 1
    Head head;
    alignas(32) std::byte body[kRoom];
  };
  struct Hall {
    alignas(128) std::atomic<uint64_t> secret;
    Desk desks[kMostRanks];
  };

  // The hall, then two slots for each rank.
  size_t bytes() const { return sizeof(Hall) + 2 * sizeof(Slot) * static_cast<size_t>(place_.size); }
  Hall& hall() const { return *reinterpret_cast<Hall*>(pages_.data()); }
  Slot& slot(int rank) const {
    const size_t index = 2 * static_cast<size_t>(rank) + step_ % 2;
    return reinterpret_cast<Slot*>(pages_.data() + sizeof(Hall))[index];
  }

  const Place place_;
  uint64_t secret_ = 0;
  SharedPages pages_;
  Doorbell bell_;
  std::vector<Doorbell::Name> bells_;
  uint32_t tickets_ = 0;
  uint32_t step_ = 0;
  int missing_ = 0;
  bool posted_ = false;
};

}  // namespace stepgate::transport

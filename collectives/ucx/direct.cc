// All-reduce of long vectors by ranks that read each other's memory: every rank combines its own block of
// the vector out of all buffers, then copies the others' blocks from where they were made. A letter (here are
// my buffers) and two rounds of short messages (my block is done; I have read yours), whatever the length.
// Nobody waits in between, which counts where ranks share cores.
//
// A rank that cannot read the others now, or whose buffers they could not, says so in its letter; then all
// take the ring, for this call.
//
// Same bits on all ranks: a block is combined by one rank, in the order of the ranks, then copied.
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "collectives/ucx/algorithms.h"
#include "collectives/ucx/letters.h"
#include "collectives/ucx/peer_memory.h"

namespace stepgate::transport {
namespace {

constexpr size_t kRestBytes = size_t{4} << 20;  // read before the world is attended to again

struct Offer {
  uint64_t send;
  uint64_t recv;
  uint64_t direct;  // 1: reads the others' and lends its own
};

std::byte* at(void* base, size_t offset) {
  return static_cast<std::byte*>(base) + offset;
}
const std::byte* at(const void* base, size_t offset) {
  return static_cast<const std::byte*>(base) + offset;
}

void tell_all(Lane& lane, Place place, const void* mine, void* theirs, size_t bytes, uint32_t step) {
  for (int rank = 0; rank < place.size; ++rank) {
    if (rank == place.rank) continue;
    lane.receive(rank, at(theirs, static_cast<size_t>(rank) * bytes), bytes, step);
    lane.send(rank, mine, bytes, step);
  }
}

Offer offer_of(const PeerMemory* memory, const void* send, const void* recv, size_t bytes) {
  const bool direct = memory != nullptr && PeerMemory::lends(send, bytes) && PeerMemory::lends(recv, bytes) &&
                      memory->reads_all();
  return {reinterpret_cast<uint64_t>(send), reinterpret_cast<uint64_t>(recv), direct ? 1u : 0u};
}

// What the letters say. True: everybody's is read directly.
bool collect_offers(const Mailbox& box, Place place, const Offer& mine, std::vector<Offer>* offers) {
  bool direct = true;
  for (int rank = 0; rank < place.size; ++rank) {
    Offer& offer = (*offers)[static_cast<size_t>(rank)];
    offer = mine;
    if (rank != place.rank) std::memcpy(&offer, box.body(rank), sizeof offer);
    direct = direct && offer.direct == 1;
  }
  return direct;
}

bool read(Lane& lane, const PeerMemory& memory, int rank, uint64_t address, void* to, size_t bytes) {
  const int reason = memory.read(rank, address, to, bytes);
  if (reason == 0) return true;
  const std::string who = "rank " + std::to_string(rank);
  if (reason == ESRCH)
    lane.fail({SGT_PEER_DEAD, rank, who + " died: its process is gone"}, rank);
  else if (reason == PeerMemory::kTakenBack)
    lane.fail({SGT_SYSTEM, rank, who + " took its buffer back"}, rank);
  else
    lane.fail({SGT_SYSTEM, rank, who + "'s memory cannot be read: " + std::strerror(reason)}, rank);
  return false;
}

// One slice of this rank's block, out of everybody's.
bool combine_slice(Lane& lane, Place place, const Reducer& reducer, const PeerMemory& memory,
                   const std::vector<Offer>& offers, const void* send, void* recv, const RingSlice& slice,
                   std::byte* sum, std::byte* incoming) {
  const size_t offset = slice.offset(place.rank), bytes = slice.bytes(place.rank);
  const void* so_far = nullptr;
  for (int rank = 0; rank < place.size; ++rank) {
    const void* next = at(send, offset);
    if (rank != place.rank) {
      std::byte* to = rank == 0 ? sum : incoming;
      if (!read(lane, memory, rank, offers[static_cast<size_t>(rank)].send + offset, to, bytes)) return false;
      next = to;
    }
    if (rank + 1 == place.size)
      reducer.combine_last(at(recv, offset), so_far, next, slice.count(place.rank));
    else if (rank > 0)
      reducer.combine(sum, so_far, next, slice.count(place.rank));
    so_far = rank == 0 ? next : sum;
  }
  return true;
}

}  // namespace

Strand direct_allreduce(Lane& lane, Place place, const Reducer& reducer, ScratchPool& pool, Mailbox& box,
                        Ticket ticket, const PeerMemory* reads, const void* send, void* recv,
                        RingSlice slice) {
  const auto ranks = static_cast<size_t>(place.size);
  const Mailbox::Head head{slice.total, reducer.kind(), ticket.sequence};
  co_await lane.turn(box, ticket.number);
  const Offer mine = offer_of(reads, send, recv, slice.total * slice.width);
  box.post(head, &mine, sizeof mine);
  box.wake_sleepers();
  co_await lane.letters(box);
  Failure failure;
  if (!letters_agree(box, place, head, &failure)) {
    lane.fail(std::move(failure));
    co_return;
  }
  std::vector<Offer> offers(ranks);
  const bool direct = collect_offers(box, place, mine, &offers);
  box.next();

  for (; !direct && slice.count(0) != 0; ++slice.slice) {
    Strand ring = ring_allreduce(lane, place, reducer, pool, send, recv, slice, false);
    for (ring.resume(); !ring.done(); ring.resume()) co_await lane.all();
  }
  if (!direct) co_return;
  const PeerMemory& memory = *reads;

  const char token = 1;
  std::vector<char> heard(ranks);
  {
    const size_t largest = slice.chunk * slice.width;
    const Scratch sum(pool, largest), incoming(pool, largest);
    size_t since_rest = 0;
    for (; slice.count(place.rank) != 0; ++slice.slice) {
      if (!combine_slice(lane, place, reducer, memory, offers, send, recv, slice, sum.data(),
                         incoming.data()))
        co_return;
      since_rest += slice.bytes(place.rank) * (ranks - 1);
      if (since_rest < kRestBytes) continue;
      since_rest = 0;
      co_await lane.rest();
    }
  }
  tell_all(lane, place, &token, heard.data(), 1, 1);
  co_await lane.all();

  slice.chunk = std::max<size_t>(1, kRestBytes / slice.width);
  for (int step = 1; step < place.size; ++step) {
    const int rank = (place.rank + step) % place.size;
    for (slice.slice = 0; slice.count(rank) != 0; ++slice.slice) {
      const size_t offset = slice.offset(rank);
      if (!read(lane, memory, rank, offers[static_cast<size_t>(rank)].recv + offset, at(recv, offset),
                slice.bytes(rank)))
        co_return;
      co_await lane.rest();
    }
  }
  tell_all(lane, place, &token, heard.data(), 1, 2);
  co_await lane.all();
}

}  // namespace stepgate::transport

// All-reduce of short vectors by ranks that share a mailbox: everybody's vector is a letter, and everybody
// combines them where they lie. letters.h also serves the first exchange of the long ones.
//
// Same bits on all ranks: everybody combines the same vectors in the order of the ranks.
#include "collectives/ucx/letters.h"

#include <string>

namespace stepgate::transport {
namespace {

std::string rank_text(int rank) {
  return "rank " + std::to_string(rank);
}

// By its length alone a letter says little: the same bytes may be another type, or another call's.
std::string difference(const Mailbox::Head& mine, const Mailbox::Head& theirs) {
  if (theirs.sequence != mine.sequence)
    return "is in its collective " + std::to_string(theirs.sequence) + ", not " +
           std::to_string(mine.sequence);
  if (theirs.count != mine.count)
    return "brings " + std::to_string(theirs.count) + " elements, not " + std::to_string(mine.count);
  return "brings another type or reduction";
}

bool equal(const Mailbox::Head& a, const Mailbox::Head& b) {
  return a.count == b.count && a.kind == b.kind && a.sequence == b.sequence;
}

}  // namespace

bool letters_agree(const Mailbox& box, Place place, const Mailbox::Head& mine, Failure* failure) {
  for (int rank = 0; rank < place.size; ++rank) {
    if (rank == place.rank || equal(mine, box.head(rank))) continue;
    *failure = {SGT_SYSTEM, rank,
                rank_text(rank) + " " + difference(mine, box.head(rank)) +
                    ": do the ranks agree on operation, type and count?"};
    return false;
  }
  return true;
}

void combine_letters(const Mailbox& box, Place place, const Reducer& reducer, ScratchPool& pool,
                     const void* send, void* recv, size_t count) {
  const auto of = [&](int rank) { return rank == place.rank ? send : box.body(rank); };
  if (place.size == 2) return reducer.combine_last(recv, of(0), of(1), count);
  const Scratch sum(pool, count * reducer.width());
  reducer.combine(sum.data(), of(0), of(1), count);
  for (int rank = 2; rank + 1 < place.size; ++rank) reducer.combine(sum.data(), sum.data(), of(rank), count);
  reducer.combine_last(recv, sum.data(), of(place.size - 1), count);
}

Strand letter_allreduce(Lane& lane, Place place, const Reducer& reducer, ScratchPool& pool, Mailbox& box,
                        Ticket ticket, const void* send, void* recv, size_t count) {
  const Mailbox::Head mine{count, reducer.kind(), ticket.sequence};
  if (!ticket.posted) {
    co_await lane.turn(box, ticket.number);
    box.post(mine, send, count * reducer.width());
    box.wake_sleepers();
  }
  co_await lane.letters(box);
  Failure failure;
  if (!letters_agree(box, place, mine, &failure)) {
    lane.fail(std::move(failure));
    co_return;
  }
  combine_letters(box, place, reducer, pool, send, recv, count);
  box.next();
}

}  // namespace stepgate::transport

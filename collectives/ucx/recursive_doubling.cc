// Recursive doubling: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication
// Operations in MPICH", IJHPCA 19(1), 2005, section 4.5; sizes that are no power of two are folded first.
//
// Same bits on all ranks: in every round the two partners combine the same two operands in the same
// order (the lower rank's first), so both hold equal bytes, and by induction so does everybody.
#include <bit>
#include <cstring>

#include "collectives/ucx/algorithms.h"

namespace stepgate::transport {
namespace {

// Of the first 2 * extra ranks only the odd ones take part in the rounds.
struct Folding {
  int core;   // largest power of two <= size
  int extra;  // size - core

  explicit Folding(int size)
      : core(static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))), extra(size - core) {}
  bool folded(int rank) const { return rank < 2 * extra; }
  int to_core(int rank) const { return folded(rank) ? rank / 2 : rank - extra; }
  int to_rank(int member) const { return member < extra ? 2 * member + 1 : member + extra; }
};

}  // namespace

void greet_short_partners(Lane& lane, Place place) {
  const Folding folding(place.size);
  const int me = place.rank;
  const auto greet = [&](int partner) {
    lane.receive(partner, nullptr, 0, kShortStep);
    lane.send(partner, nullptr, 0, kShortStep);
  };
  if (folding.folded(me)) greet(me ^ 1);
  if (folding.folded(me) && me % 2 == 0) return;
  for (int distance = 1; distance < folding.core; distance *= 2)
    greet(folding.to_rank(folding.to_core(me) ^ distance));
}

Strand recursive_doubling(Lane& lane, Place place, const Reducer& reducer, ScratchPool& pool,
                          const void* send, void* recv, size_t count) {
  const size_t bytes = count * reducer.width();
  const Folding folding(place.size);
  const int me = place.rank;
  if (send != recv && bytes != 0) std::memmove(recv, send, bytes);
  if (place.size == 1 || count == 0) co_return;

  if (folding.folded(me) && me % 2 == 0) {
    lane.send(me + 1, recv, bytes, kShortStep);
    co_await lane.all();
    lane.receive(me + 1, recv, bytes, kShortStep);
    co_await lane.all();
    co_return;
  }

  const Scratch incoming(pool, bytes);
  if (folding.folded(me)) {
    lane.receive(me - 1, incoming.data(), bytes, kShortStep);
    co_await lane.all();
    reducer.combine(recv, incoming.data(), recv, count);
  }
  const int member = folding.to_core(me);
  for (int distance = 1; distance < folding.core; distance *= 2) {
    const int partner = folding.to_rank(member ^ distance);
    lane.receive(partner, incoming.data(), bytes, kShortStep);
    lane.send(partner, recv, bytes, kShortStep);
    co_await lane.all();
    const void* first = partner < me ? incoming.data() : recv;
    const void* second = partner < me ? recv : incoming.data();
    const bool last = distance * 2 == folding.core;
    (last ? reducer.combine_last(recv, first, second, count) : reducer.combine(recv, first, second, count));
  }
  if (folding.folded(me)) {
    lane.send(me - 1, recv, bytes, kShortStep);
    co_await lane.all();
  }
}

}  // namespace stepgate::transport

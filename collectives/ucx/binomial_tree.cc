// Binomial tree broadcast: Thakur, Rabenseifner, Gropp (IJHPCA 19(1), 2005), section 4.2: counted from
// the root, rank r hears from r minus its lowest set bit, and serves r + 2^k for every k below that bit.
// Long messages run as several segments, each a strand. The reduction is the same tree upside down: a rank
// takes in the ranks above it, nearest first, and hands the result to the rank that it would hear from.
#include <cstring>

#include "collectives/ucx/algorithms.h"

namespace stepgate::transport {
namespace {

// The lowest set bit bounds the subtree; the root's reaches over all ranks.
int reach(int relative, int size) {
  int bit = 1;
  while (bit < size && (relative & bit) == 0) bit *= 2;
  return bit;
}

}  // namespace

Strand binomial_broadcast(Lane& lane, Place place, int root, const void* send, void* recv, size_t bytes) {
  const int relative = (place.rank - root + place.size) % place.size;
  const auto rank_of = [&](int r) { return (r + root) % place.size; };
  const int span = reach(relative, place.size);
  if (relative == 0) {
    if (send != recv && bytes != 0) std::memmove(recv, send, bytes);
  } else {
    lane.receive(rank_of(relative - span), recv, bytes, 0);
    co_await lane.all();
  }
  for (int distance = span / 2; distance > 0; distance /= 2)
    if (relative + distance < place.size) lane.send(rank_of(relative + distance), recv, bytes, 0);
  co_await lane.all();
}

Strand binomial_reduce(Lane& lane, Place place, const Reducer& reducer, ScratchPool& pool, const void* send,
                       void* recv, size_t count, int root) {
  const size_t bytes = count * reducer.width();
  const int relative = (place.rank - root + place.size) % place.size;
  const auto rank_of = [&](int r) { return (r + root) % place.size; };
  const int span = reach(relative, place.size);
  const Scratch incoming(pool, bytes), sums(pool, relative == 0 ? 0 : bytes);
  void* sum = relative == 0 ? recv : sums.data();
  const void* so_far = send;
  for (int distance = 1; distance < span && relative + distance < place.size; distance *= 2) {
    lane.receive(rank_of(relative + distance), incoming.data(), bytes, 0);
    co_await lane.all();
    const bool last = relative == 0 && distance * 2 >= place.size;
    (last ? reducer.combine_last(sum, so_far, incoming.data(), count)
          : reducer.combine(sum, so_far, incoming.data(), count));
    so_far = sum;
  }
  if (relative != 0) {
    lane.send(rank_of(relative - span), so_far, bytes, 0);
    co_await lane.all();
  } else if (so_far != recv && bytes != 0) {
    std::memmove(recv, so_far, bytes);
  }
}

}  // namespace stepgate::transport

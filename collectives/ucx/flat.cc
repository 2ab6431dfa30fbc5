// All-reduce of short vectors among few ranks in one exchange: everybody sends to everybody and combines for
// itself. More messages than recursive doubling, but a rank that shares its core waits once, not log2(size)
// times.
//
// Same bits on all ranks: everybody combines the same vectors in the order of the ranks.
#include <cstring>

#include "collectives/ucx/algorithms.h"

namespace stepgate::transport {

Strand flat_allreduce(Lane& lane, Place place, const Reducer& reducer, ScratchPool& pool, const void* send,
                      void* recv, size_t count) {
  const size_t bytes = count * reducer.width();
  const Scratch all(pool, bytes * static_cast<size_t>(place.size));
  const auto of = [&](int rank) { return all.data() + static_cast<size_t>(rank) * bytes; };
  for (int rank = 0; rank < place.size; ++rank)
    if (rank != place.rank) lane.receive(rank, of(rank), bytes, kShortStep);
  for (int step = 1; step < place.size; ++step)
    lane.send((place.rank + step) % place.size, send, bytes, kShortStep);
  std::memcpy(of(place.rank), send, bytes);
  co_await lane.all();
  for (int rank = 1; rank + 1 < place.size; ++rank) reducer.combine(of(0), of(0), of(rank), count);
  reducer.combine_last(recv, of(0), of(place.size - 1), count);
}

}  // namespace stepgate::transport

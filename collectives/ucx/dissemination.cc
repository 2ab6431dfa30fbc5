// Dissemination barrier: D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization",
// International Journal of Parallel Programming 17(1), 1988. After round k a rank has heard, directly or
// not, from the 2^(k+1) - 1 ranks before it.
#include "collectives/ucx/algorithms.h"

namespace stepgate::transport {

Strand dissemination_barrier(Lane& lane, Place place) {
  const char token = 1;
  char heard = 0;
  uint32_t round = 0;
  for (int distance = 1; distance < place.size; distance *= 2, ++round) {
    lane.receive((place.rank + place.size - distance) % place.size, &heard, 1, round);
    lane.send((place.rank + distance) % place.size, &token, 1, round);
    co_await lane.all();
  }
}

}  // namespace stepgate::transport

// Blocks that travel from one rank to another and are not combined: gather, scatter, all-to-all, and single
// messages.
//
// All-to-all in `size` steps in each of which two ranks exchange blocks (A. Faraj, X. Yuan, "Automatic
// generation and tuning of MPI collective communication routines", ICS 2005, section 3.1.2, "pair"): in step
// s the partner of rank r is s - r, whose partner is r again, whatever the size.
#include <cstring>

#include "collectives/ucx/algorithms.h"

namespace stepgate::transport {
namespace {

std::byte* at(void* base, size_t offset) {
  return static_cast<std::byte*>(base) + offset;
}
const std::byte* at(const void* base, size_t offset) {
  return static_cast<const std::byte*>(base) + offset;
}

// Of a buffer that holds one block alone.
size_t own_offset(const RingSlice& slice) {
  return slice.slice * slice.chunk * slice.width;
}

void copy(void* to, const void* from, size_t bytes) {
  if (to != from && bytes != 0) std::memmove(to, from, bytes);
}

}  // namespace

Strand linear_gather(Lane& lane, Place place, const void* small, void* large, RingSlice slice, int root) {
  const std::byte* own = at(small, own_offset(slice));
  if (place.rank == root) {
    for (int from = 0; from < place.size; ++from)
      if (from != root) lane.receive(from, at(large, slice.offset(from)), slice.bytes(from), 0);
    copy(at(large, slice.offset(root)), own, slice.bytes(root));
  } else {
    lane.send(root, own, slice.bytes(place.rank), 0);
  }
  co_await lane.all();
}

Strand linear_scatter(Lane& lane, Place place, const void* large, void* small, RingSlice slice, int root) {
  std::byte* own = at(small, own_offset(slice));
  if (place.rank == root) {
    for (int to = 0; to < place.size; ++to)
      if (to != root) lane.send(to, at(large, slice.offset(to)), slice.bytes(to), 0);
    copy(own, at(large, slice.offset(root)), slice.bytes(root));
  } else {
    lane.receive(root, own, slice.bytes(place.rank), 0);
  }
  co_await lane.all();
}

Strand pairwise_exchange(Lane& lane, Place place, const void* send, void* recv, RingSlice slice) {
  for (int step = 0; step < place.size; ++step) {
    const int partner = (step - place.rank + place.size) % place.size;
    const std::byte* out = at(send, slice.offset(partner));
    std::byte* in = at(recv, slice.offset(partner));
    if (partner == place.rank) {
      copy(in, out, slice.bytes(partner));
      continue;
    }
    lane.receive(partner, in, slice.bytes(partner), 0);
    lane.send(partner, out, slice.bytes(partner), 0);
    co_await lane.all();
  }
}

Strand send_message(Lane& lane, int to, const void* data, size_t bytes) {
  lane.send(to, data, bytes, 0);
  co_await lane.all();
}

Strand receive_message(Lane& lane, int from, void* data, size_t bytes) {
  lane.receive(from, data, bytes, 0);
  co_await lane.all();
}

}  // namespace stepgate::transport

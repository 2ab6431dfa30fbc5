// Ring reduce-scatter and all-gather: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for
// clusters of workstations", JPDC 69(2), 2009. Each rank talks to its two neighbours only and moves
// 2 (size - 1) / size of the vector. Slices of the vector run as strands of their own, so that one
// combines while others travel.
//
// Same bits on all ranks: a block is summed along one path by one chain of ranks, then copied.
#include <algorithm>
#include <cstring>

#include "collectives/ucx/algorithms.h"

namespace stepgate::transport {
namespace {

int wrap(int block, int size) {
  return ((block % size) + size) % size;
}

std::byte* at(void* base, size_t offset) {
  return static_cast<std::byte*>(base) + offset;
}
const std::byte* at(const void* base, size_t offset) {
  return static_cast<const std::byte*>(base) + offset;
}

void copy(void* to, const void* from, size_t bytes) {
  if (to != from && bytes != 0) std::memmove(to, from, bytes);
}

// In step s of the reduce-scatter, rank r passes block r - s - 1 on and takes in block r - s - 2; what it
// takes in last is its own block r. In step s of the all-gather it passes block r - s and takes r - s - 1.
struct Ring {
  Place place;

  int left() const { return wrap(place.rank - 1, place.size); }
  int right() const { return wrap(place.rank + 1, place.size); }
  int steps() const { return place.size - 1; }
  int reduce_out(int step) const { return wrap(place.rank - step - 1, place.size); }
  int reduce_in(int step) const { return wrap(place.rank - step - 2, place.size); }
  int gather_out(int step) const { return wrap(place.rank - step, place.size); }
  int gather_in(int step) const { return wrap(place.rank - step - 1, place.size); }
};

void exchange(Lane& lane, const Ring& ring, const void* out, size_t out_bytes, void* in, size_t in_bytes,
              uint32_t step) {
  if (in_bytes != 0) lane.receive(ring.left(), in, in_bytes, step);
  if (out_bytes != 0) lane.send(ring.right(), out, out_bytes, step);
}

// What each step of the reduction reads and writes. Partial sums alternate between two buffers: one
// leaves while the next comes in.
struct Partial {
  const Scratch a, b;

  Partial(ScratchPool& pool, size_t bytes) : a(pool, bytes), b(pool, bytes) {}
  std::byte* incoming(int step) const { return step % 2 == 0 ? a.data() : b.data(); }
  const std::byte* outgoing(int step) const { return step % 2 == 0 ? b.data() : a.data(); }
};

// The block that came in at `step`, plus our own share, becomes what leaves next, or the result.
void absorb(const Reducer& reducer, const Ring& ring, const RingSlice& slice, const Partial& partial,
            const void* send, void* result, int step) {
  const int block = ring.reduce_in(step);
  std::byte* in = partial.incoming(step);
  const std::byte* own = at(send, slice.offset(block));
  if (step + 1 == ring.steps())
    reducer.combine_last(result, in, own, slice.count(block));
  else
    reducer.combine(in, in, own, slice.count(block));
}

void post_reduce(Lane& lane, const Ring& ring, const RingSlice& slice, const Partial& partial,
                 const void* send, int step) {
  const int out = ring.reduce_out(step);
  const std::byte* source = step == 0 ? at(send, slice.offset(out)) : partial.outgoing(step);
  exchange(lane, ring, source, slice.bytes(out), partial.incoming(step), slice.bytes(ring.reduce_in(step)),
           static_cast<uint32_t>(step));
}

void post_gather(Lane& lane, const Ring& ring, const RingSlice& slice, void* recv, int step) {
  const int out = ring.gather_out(step);
  const int in = ring.gather_in(step);
  exchange(lane, ring, at(recv, slice.offset(out)), slice.bytes(out), at(recv, slice.offset(in)),
           slice.bytes(in), static_cast<uint32_t>(ring.steps() + step));
}

}  // namespace

size_t RingSlice::offset(int block) const {
  const size_t each = total / static_cast<size_t>(blocks), longer = total % static_cast<size_t>(blocks);
  const size_t b = static_cast<size_t>(block);
  return (b * each + std::min(b, longer) + slice * chunk) * width;
}

size_t RingSlice::count(int block) const {
  const size_t each = total / static_cast<size_t>(blocks), longer = total % static_cast<size_t>(blocks);
  const size_t length = each + (static_cast<size_t>(block) < longer ? 1 : 0);
  return slice * chunk >= length ? 0 : std::min(chunk, length - slice * chunk);
}

Strand ring_allreduce(Lane& lane, Place place, const Reducer& reducer, ScratchPool& pool, const void* send,
                      void* recv, RingSlice slice, bool greets) {
  const Ring ring{place};
  {
    const Partial partial(pool, slice.chunk * slice.width);
    if (greets && slice.slice == 0) greet_short_partners(lane, place);
    for (int step = 0; step < ring.steps(); ++step) {
      post_reduce(lane, ring, slice, partial, send, step);
      co_await lane.all();
      absorb(reducer, ring, slice, partial, send, at(recv, slice.offset(place.rank)), step);
    }
  }
  for (int step = 0; step < ring.steps(); ++step) {
    post_gather(lane, ring, slice, recv, step);
    co_await lane.all();
  }
}

// As the reduce-scatter; then every rank hands its block of the slice to the root. In place on the root: its
// own values have all been used by then.
Strand ring_reduce(Lane& lane, Place place, const Reducer& reducer, ScratchPool& pool, const void* send,
                   void* recv, RingSlice slice, int root) {
  const Ring ring{place};
  const bool collects = place.rank == root;
  const Scratch mine(pool, collects ? 0 : slice.chunk * slice.width);
  void* result = collects ? at(recv, slice.offset(root)) : mine.data();
  {
    const Partial partial(pool, slice.chunk * slice.width);
    for (int step = 0; step < ring.steps(); ++step) {
      post_reduce(lane, ring, slice, partial, send, step);
      co_await lane.all();
      absorb(reducer, ring, slice, partial, send, result, step);
    }
  }
  const auto last_step = static_cast<uint32_t>(ring.steps());
  if (!collects) {
    if (slice.bytes(place.rank) != 0) lane.send(root, result, slice.bytes(place.rank), last_step);
  } else {
    for (int from = 0; from < place.size; ++from)
      if (from != root && slice.bytes(from) != 0)
        lane.receive(from, at(recv, slice.offset(from)), slice.bytes(from), last_step);
  }
  co_await lane.all();
}

Strand ring_reduce_scatter(Lane& lane, Place place, const Reducer& reducer, ScratchPool& pool,
                           const void* send, void* recv, RingSlice slice) {
  const Ring ring{place};
  const Partial partial(pool, slice.chunk * slice.width);
  std::byte* result = at(recv, slice.slice * slice.chunk * slice.width);
  if (place.size == 1) copy(result, at(send, slice.offset(0)), slice.bytes(0));
  for (int step = 0; step < ring.steps(); ++step) {
    post_reduce(lane, ring, slice, partial, send, step);
    co_await lane.all();
    absorb(reducer, ring, slice, partial, send, result, step);
  }
}

Strand ring_allgather(Lane& lane, Place place, const void* send, void* recv, RingSlice slice) {
  const Ring ring{place};
  copy(at(recv, slice.offset(place.rank)), at(send, slice.slice * slice.chunk * slice.width),
       slice.bytes(place.rank));
  for (int step = 0; step < ring.steps(); ++step) {
    post_gather(lane, ring, slice, recv, step);
    co_await lane.all();
  }
}

}  // namespace stepgate::transport

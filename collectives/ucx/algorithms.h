// The collective algorithms, each a Strand (see strand.h) that one rank runs and that cites its paper.
// Large operations run several strands at once, each over its own slice: that is the pipelining.
// All pointers live until the strand is done; counts may be 0. Thread: the world's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/ucx/reduce.h"
#include "collectives/ucx/scratch.h"
#include "collectives/ucx/strand.h"

namespace stepgate::transport {

class Mailbox;
class PeerMemory;
struct Ticket;

struct Place {
  int rank;
  int size;
};

// The step of all messages of the two short all-reduces below, of which a pair of ranks exchanges at most one
// each way, and of the ring's empty greeting: ranks whose counts make them choose differently meet here
// and see another length than theirs. Beyond the steps of a ring of up to 2048 ranks.
inline constexpr uint32_t kShortStep = 0xfff;

// All-reduce in ceil(log2 size) exchanges of the whole vector, for short ones. recursive_doubling.cc
Strand recursive_doubling(Lane& lane, Place place, const Reducer& reducer, ScratchPool& pool,
                          const void* send, void* recv, size_t count);

// What a long all-reduce says to the ranks with which a short one would exchange: the empty greeting. With
// whatever a rank that thinks that the vector is short has sent, one of the two sees the mismatch.
void greet_short_partners(Lane& lane, Place place);

// The same in one exchange, for few ranks; count is not 0. flat.cc
Strand flat_allreduce(Lane& lane, Place place, const Reducer& reducer, ScratchPool& pool, const void* send,
                      void* recv, size_t count);

// The vector as `size` blocks of nearly equal length, of which a slice takes the elements
// [slice * chunk, slice * chunk + chunk) of each.
struct RingSlice {
  size_t total;  // elements of all blocks together
  int blocks;
  size_t chunk;
  size_t slice;
  size_t width;

  size_t offset(int block) const;  // bytes
  size_t count(int block) const;   // elements
  size_t bytes(int block) const { return count(block) * width; }
};

// Ring reduce-scatter then ring all-gather: all-reduce of long vectors. `greets`: the first slice does, where
// nothing else compares the ranks' counts. ring.cc
Strand ring_allreduce(Lane& lane, Place place, const Reducer& reducer, ScratchPool& pool, const void* send,
                      void* recv, RingSlice slice, bool greets);
// All-reduce of long vectors by ranks that share a mailbox: where all can read each other's memory, directly,
// else by the ring above, slice after slice. `memory`: NULL where this rank cannot. direct.cc
Strand direct_allreduce(Lane& lane, Place place, const Reducer& reducer, ScratchPool& pool, Mailbox& box,
                        Ticket ticket, const PeerMemory* memory, const void* send, void* recv,
                        RingSlice slice);
// recv holds this rank's block alone.
Strand ring_reduce_scatter(Lane& lane, Place place, const Reducer& reducer, ScratchPool& pool,
                           const void* send, void* recv, RingSlice slice);
// send holds this rank's block alone.
Strand ring_allgather(Lane& lane, Place place, const void* send, void* recv, RingSlice slice);

// Broadcast of one segment down a binomial tree. binomial_tree.cc
Strand binomial_broadcast(Lane& lane, Place place, int root, const void* send, void* recv, size_t bytes);

// Reduction to one rank. The short one runs up a binomial tree (binomial_tree.cc), the long one is a ring
// reduce-scatter whose blocks all go to the root (ring.cc). recv counts on the root only.
Strand binomial_reduce(Lane& lane, Place place, const Reducer& reducer, ScratchPool& pool, const void* send,
                       void* recv, size_t count, int root);
Strand ring_reduce(Lane& lane, Place place, const Reducer& reducer, ScratchPool& pool, const void* send,
                   void* recv, RingSlice slice, int root);

// One slice of what all ranks hand to the root, the root to all, or everybody to everybody. `large` is the
// buffer with a block for each rank, `small` this rank's own. pairs.cc
Strand linear_gather(Lane& lane, Place place, const void* small, void* large, RingSlice slice, int root);
Strand linear_scatter(Lane& lane, Place place, const void* large, void* small, RingSlice slice, int root);
Strand pairwise_exchange(Lane& lane, Place place, const void* send, void* recv, RingSlice slice);

// One message between two ranks. pairs.cc
Strand send_message(Lane& lane, int to, const void* data, size_t bytes);
Strand receive_message(Lane& lane, int from, void* data, size_t bytes);

// Returns once every rank has entered. dissemination.cc
Strand dissemination_barrier(Lane& lane, Place place);

}  // namespace stepgate::transport

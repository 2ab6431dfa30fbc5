// Which algorithm serves which collective and size. Measured on two cores over shared memory and TCP;
// see README.md for how to measure again.
#include <algorithm>

#include "collectives/ucx/world.h"

namespace stepgate::transport {
namespace {

constexpr size_t kDoublingBytes = 32 * 1024;  // up to here latency counts, above it bandwidth
constexpr size_t kFlatBytes = 1024;           // of each rank: one exchange among all of them
constexpr int kFlatRanks = 8;
constexpr size_t kChunkBytes = 256 * 1024;  // one message of a ring or a broadcast
constexpr uint32_t kWindow = 4;             // slices under way at once

size_t divide_up(size_t a, size_t b) {
  return (a + b - 1) / b;
}

RingSlice slices_of(size_t total, int blocks, size_t width) {
  return {total, blocks, std::max<size_t>(1, kChunkBytes / width), 0, width};
}

uint32_t number_of(const RingSlice& slice) {
  const size_t longest = divide_up(slice.total, static_cast<size_t>(slice.blocks));
  return static_cast<uint32_t>(divide_up(longest, slice.chunk));
}

RingSlice nth(RingSlice slice, uint32_t index) {
  slice.slice = index;
  return slice;
}

}  // namespace

Operation* World::allreduce(const void* send, void* recv, size_t count, sgt_type type,
                            sgt_reduction reduction) {
  const Reducer reducer(type, reduction, place_.size);
  const size_t bytes = count * reducer.width();
  if (mails(bytes)) {
    const std::lock_guard lock(mutex_);
    require_sound();
    return begin_letter(reducer, take_ticket(), send, recv, count);
  }
  if (place_.size > 2 && place_.size <= kFlatRanks && bytes > 0 && bytes <= kFlatBytes)
    return begin({"all-reduce", 1, 1, [=, this](Lane& lane, uint32_t) {
                    return flat_allreduce(lane, place_, reducer, scratch_, send, recv, count);
                  }});
  if (place_.size == 1 || bytes <= kDoublingBytes)
    return begin({"all-reduce", 1, 1, [=, this](Lane& lane, uint32_t) {
                    return recursive_doubling(lane, place_, reducer, scratch_, send, recv, count);
                  }});
  const RingSlice slices = slices_of(count, place_.size, reducer.width());
  if (mailbox_ != nullptr) {
    const std::lock_guard lock(mutex_);
    require_sound();
    const Ticket ticket = take_ticket();
    const PeerMemory* memory = reads_peers_ ? &memory_ : nullptr;
    return begin_with({ticket.sequence, false}, {"all-reduce", 1, 1, [=, this](Lane& lane, uint32_t) {
                                                   return direct_allreduce(lane, place_, reducer, scratch_,
                                                                           *mailbox_, ticket, memory, send,
                                                                           recv, slices);
                                                 }});
  }
  return begin({"all-reduce", number_of(slices), kWindow, [=, this](Lane& lane, uint32_t index) {
                  return ring_allreduce(lane, place_, reducer, scratch_, send, recv, nth(slices, index),
                                        true);
                }});
}

Operation* World::reduce_scatter(const void* send, void* recv, size_t count, sgt_type type,
                                 sgt_reduction reduction) {
  const Reducer reducer(type, reduction, place_.size);
  const RingSlice slices = slices_of(count * static_cast<size_t>(place_.size), place_.size, reducer.width());
  return begin({"reduce-scatter", number_of(slices), kWindow, [=, this](Lane& lane, uint32_t index) {
                  return ring_reduce_scatter(lane, place_, reducer, scratch_, send, recv, nth(slices, index));
                }});
}

Operation* World::allgather(const void* send, void* recv, size_t count, sgt_type type) {
  const RingSlice slices = slices_of(count * static_cast<size_t>(place_.size), place_.size, width_of(type));
  return begin({"all-gather", number_of(slices), kWindow, [=, this](Lane& lane, uint32_t index) {
                  return ring_allgather(lane, place_, send, recv, nth(slices, index));
                }});
}

Operation* World::broadcast(const void* send, void* recv, size_t count, sgt_type type, int root) {
  const size_t bytes = count * width_of(type);
  const auto segments = static_cast<uint32_t>(divide_up(bytes, kChunkBytes));
  return begin({"broadcast", segments, kWindow, [=, this](Lane& lane, uint32_t index) {
                  const size_t from = index * kChunkBytes;
                  return binomial_broadcast(lane, place_, root, static_cast<const std::byte*>(send) + from,
                                            static_cast<std::byte*>(recv) + from,
                                            std::min(kChunkBytes, bytes - from));
                }});
}

Operation* World::reduce(const void* send, void* recv, size_t count, sgt_type type, sgt_reduction reduction,
                         int root) {
  const Reducer reducer(type, reduction, place_.size);
  if (place_.size == 1 || count * reducer.width() <= kDoublingBytes)
    return begin({"reduce", 1, 1, [=, this](Lane& lane, uint32_t) {
                    return binomial_reduce(lane, place_, reducer, scratch_, send, recv, count, root);
                  }});
  const RingSlice slices = slices_of(count, place_.size, reducer.width());
  return begin({"reduce", number_of(slices), kWindow, [=, this](Lane& lane, uint32_t index) {
                  return ring_reduce(lane, place_, reducer, scratch_, send, recv, nth(slices, index), root);
                }});
}

Operation* World::gather(const void* send, void* recv, size_t count, sgt_type type, int root) {
  const RingSlice slices = slices_of(count * static_cast<size_t>(place_.size), place_.size, width_of(type));
  return begin({"gather", number_of(slices), kWindow, [=, this](Lane& lane, uint32_t index) {
                  return linear_gather(lane, place_, send, recv, nth(slices, index), root);
                }});
}

Operation* World::scatter(const void* send, void* recv, size_t count, sgt_type type, int root) {
  const RingSlice slices = slices_of(count * static_cast<size_t>(place_.size), place_.size, width_of(type));
  return begin({"scatter", number_of(slices), kWindow, [=, this](Lane& lane, uint32_t index) {
                  return linear_scatter(lane, place_, send, recv, nth(slices, index), root);
                }});
}

Operation* World::alltoall(const void* send, void* recv, size_t count, sgt_type type) {
  const RingSlice slices = slices_of(count * static_cast<size_t>(place_.size), place_.size, width_of(type));
  return begin({"all-to-all", number_of(slices), kWindow, [=, this](Lane& lane, uint32_t index) {
                  return pairwise_exchange(lane, place_, send, recv, nth(slices, index));
                }});
}

Operation* World::barrier() {
  return begin(
      {"barrier", 1, 1, [this](Lane& lane, uint32_t) { return dissemination_barrier(lane, place_); }});
}

}  // namespace stepgate::transport

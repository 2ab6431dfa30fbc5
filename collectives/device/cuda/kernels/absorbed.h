// Updates that change nothing: one pass over before, after and update that counts.
//
// Thread: every thread of the grid for itself; sums meet in integer atomics, exact in any order.
// Device code.
#pragma once

#include <cstdint>

#include "collectives/device/cuda/kernels/apply.h"
#include "collectives/device/cuda/kernels/arguments.h"
#include "collectives/device/cuda/kernels/warp.h"

namespace stepgate::cuda {

struct Absorbed {
  std::uint64_t updates = 0;
  std::uint64_t absorbed = 0;
};

template <class Word>
STEPGATE_DEVICE void look_at_update(Word before, Word after, Word update, Absorbed& seen) {
  constexpr Word kMagnitude = static_cast<Word>(~Word{0}) >> 1;
  const bool moves = (update & kMagnitude) != 0;
  seen.updates += moves;
  seen.absorbed += moves && before == after;
}

template <class Word>
STEPGATE_DEVICE void absorbed(const UpdateArguments& a) {
  const auto* before = static_cast<const Word*>(a.before);
  const auto* after = static_cast<const Word*>(a.after);
  const auto* update = static_cast<const Word*>(a.update);
  const GridThread t = grid_thread();
  Absorbed seen;
#pragma unroll 1
  for (std::uint64_t i = t.index; i < a.count; i += t.threads) {
    look_at_update(before[i], after[i], update[i], seen);
  }
  const std::uint64_t updates = warp_sum(seen.updates);
  const std::uint64_t same = warp_sum(seen.absorbed);
  if (t.index == 0) atomicAdd(a.total, static_cast<unsigned long long>(a.count));
  if (lane_index() != 0) return;
  if (updates != 0) atomicAdd(a.total + 1, static_cast<unsigned long long>(updates));
  if (same != 0) atomicAdd(a.total + 2, static_cast<unsigned long long>(same));
}

}  // namespace stepgate::cuda

// A grid of CUDA blocks on the CPU: every CUDA thread is a fiber, the fibers of one block share one OS
// thread, blocks are spread over several.
//
//   run_grid(grid, block, [&] { kernel(arguments); });
//
// Inside the body the functions below say who runs and do what needs the other threads. A barrier that
// not all threads of a block (or warp) reach ends the process with a message.
//
// Threads: run_grid from any, several at once; the rest from a fiber. Lock: one around the stacks that
// wait for their next use. Ownership: everything dies with run_grid, those stacks apart.
#pragma once

#include <cstddef>
#include <functional>

namespace stepgate::standin {

inline constexpr unsigned kLanes = 32;
inline constexpr std::size_t kSlotBytes = 16;  // the widest value that lanes exchange

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};
struct Identity {
  Index3 thread, block, block_size, grid_size;
};

// block: a multiple of 32.
void run_grid(unsigned grid, unsigned block, const std::function<void()>& body);

const Identity& identity();
void block_barrier();
void warp_barrier();
// Orders what this thread did before with what any thread does after a fence of its own.
void fence();
// Gives `value` (bytes of it, at most kSlotBytes) to the warp's other lanes and waits for theirs: 32
// slots of kSlotBytes, to be read before the lane's next exchange.
const unsigned char* warp_exchange(const void* value, std::size_t bytes);

}  // namespace stepgate::standin

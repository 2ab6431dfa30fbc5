// Poke: a few bytes from the launch's own argument into device memory. The host's copy may be gone
// when the stream gets there, and a graph replays the bytes that it captured.
//
// Thread: one block of kStepThreads. Order: the stream's. Device code.
#pragma once

#include <cstdint>

#include "collectives/device/cuda/kernels/arguments.h"
#include "collectives/device/cuda/kernels/intrinsics.h"

namespace stepgate::cuda {

STEPGATE_DEVICE void poke(const PokeArguments& a) {
  auto* to = static_cast<unsigned char*>(a.to);
  for (std::uint32_t i = threadIdx.x; i < a.bytes; i += blockDim.x) to[i] = a.data[i];
}

}  // namespace stepgate::cuda

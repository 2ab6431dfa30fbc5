// One collective, send or receive as the caller asked for it, and the checks that NCCL makes at the call.
//
//   Request r{.kind = Collective::kAllReduce, .send = in, .recv = out, .count = n, ...};
//   Outcome o = check(r, comm->rank(), comm->size());
//
// Plain values and pure functions: any thread, no order, no lock. Buffers stay the caller's until
// the operation has completed.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "collectives/hostnccl/outcome.h"
#include "collectives/nccl_abi/element_bytes.h"
#include "collectives/nccl_abi/nccl_abi.h"
#include "collectives/ucx/transport.h"

namespace stepgate::hostnccl {

enum class Collective {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAlltoAll,
  kSend,
  kRecv
};

// What a rank's values are multiplied by before they are summed, if by anything.
struct PreMul {
  decltype(sgt_table::scale) scale = nullptr;  // NULL: by nothing
  const void* pointer = nullptr;               // read when the collective runs; NULL: `value` counts
  alignas(8) std::array<std::byte, 8> value = {};

  bool used() const noexcept { return scale != nullptr; }
  const void* scalar() const noexcept { return pointer != nullptr ? pointer : value.data(); }
};

struct Request {
  Collective kind = Collective::kAllReduce;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;  // elements; of one rank's share where a buffer holds all, as in NCCL
  // Plain numbers: a caller may hand over any value, and one outside the enumeration must not be loaded
  // as one.
  int type = ncclFloat32;
  int op = ncclSum;
  int root = 0;  // the peer of a send or receive
  PreMul premul = {};
};

const char* name_of(Collective kind) noexcept;
bool reduces(Collective kind) noexcept;

// What one rank of a collective reads and writes. Ranks other than the root neither send in a broadcast or
// scatter nor receive in a reduce or gather.
struct Extent {
  bool sends = true;
  bool receives = true;
  std::size_t share = 0;  // bytes of `count` elements
  std::size_t send_bytes = 0;
  std::size_t recv_bytes = 0;
};
Extent extent_of(const Request& request, int rank, int size) noexcept;

// ncclInvalidArgument for what NCCL calls an argument error and for buffers that overlap in any way
// but the in-place ones; ncclInvalidUsage for what NCCL knows and this library does not offer.
Outcome check(const Request& request, int rank, int size);

}  // namespace stepgate::hostnccl

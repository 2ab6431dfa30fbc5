// Captures: what streams are given while one of them captures is kept as a graph instead of run.
//
// A graph knows what each piece must come after, as the streams and events said it; a replay takes a
// random order among those that this allows, so that an order that nobody asked for shows.
// Threads: any; the World's lock is held around every call. Ownership: a graph outlives its replays.
#pragma once

#include <cstddef>
#include <functional>
#include <random>
#include <vector>

#include "collectives/device/cuda/driver_abi.h"

struct CUgraph_st {
  struct Node {
    std::function<void()> work;
    std::vector<std::size_t> after;
  };
  CUctx_st* context = nullptr;
  std::vector<Node> nodes;
};

struct CUgraphExec_st {
  CUgraph_st graph;
};

namespace stepgate::standin {

// The last pieces of a stream or of an event's record.
using Frontier = std::vector<std::size_t>;

struct Capture {
  CUgraph_st* graph = nullptr;
  CUstream_st* origin = nullptr;
  device::cuda::CaptureMode mode = device::cuda::CaptureMode::kGlobal;
  bool invalid = false;
};

void add_node(CUgraph_st& graph, Frontier& frontier, std::function<void()> work);
void join(Frontier& into, const Frontier& other);
// Whether everything in the graph comes before the frontier.
bool all_joined(const CUgraph_st& graph, const Frontier& frontier);
// Indices of the nodes in an order that their dependencies allow.
std::vector<std::size_t> random_order(const CUgraph_st& graph, std::mt19937_64& random);

}  // namespace stepgate::standin

// What the ranks learn of each other before the fabric opens: who shares a host, whether they agree on
// the transports, which device carries TCP, and whose process runs the coordinator. Called once per
// world, by the thread that creates it; throws Error.
#pragma once

#include <string>
#include <vector>

#include "collectives/ucx/algorithms.h"
#include "collectives/ucx/control.h"
#include "collectives/ucx/fabric.h"

namespace stepgate::transport {

struct Options;

struct Meeting {
  std::vector<IdLayout> doors;  // by rank
  Fabric::Settings fabric;
  int coordinator_rank = -1;  // the lowest rank in the coordinator's process, -1 if none is
  int ranks_here = 1;         // on this host
};

Meeting meet(Control& control, const IdLayout& id, Place place, const Options& options, const IdLayout& door);

// "rank 0 waited 5 s for rank 2 in all-reduce"
std::string describe_timeout(int rank, int peer, double seconds, const char* operation);

}  // namespace stepgate::transport

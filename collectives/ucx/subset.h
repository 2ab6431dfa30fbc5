// A smaller world out of ranks of one that lives, is broken or was aborted: those that are named, and they
// alone, call this and meet at the first one's door.
//
//   World* child = create_subset(parent, {3, 0, 1}, options, &listeners, &number);   // parent's ranks
//
// Thread: any; the parent must stay meanwhile, nothing of it changes. Throws Error, with the culprit's rank
// in the new world. Ownership: the new world is the caller's; where this rank is the first, the meeting is
// entered in `listeners` under *number, else that is 0.
#pragma once

#include <memory>
#include <vector>

#include "collectives/ucx/listeners.h"
#include "collectives/ucx/world.h"

namespace stepgate::transport {

// In its final place: a world does not move.
std::unique_ptr<World> create_subset(const World& parent, const std::vector<int>& members,
                                     const Options& options, Listeners* listeners, uint64_t* number);

}  // namespace stepgate::transport

// Communicators out of one that is there: ncclCommSplit and ncclCommShrink, behind their arguments.
//
//   ChildRequest request{.kind = ChildRequest::kSplit, .color = 1, .key = 0, .config = parent->config()};
//   std::shared_ptr<Communicator> child;
//   Outcome o = make_child(*parent, request, &child);    // NULL: this rank is in none
//
// Collective: a split over all ranks of the parent, a shrink over those that are left. Waits end at the
// parent's deadline; the death of a rank of the new communicator, seen through the parent, ends them at once.
// Thread: any; takes the parent's use() for as long as it lasts. Lock: that one, then the inner one.
// Ownership: the child is the caller's and needs nothing of its parent once it is there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/hostnccl/communicator.h"
#include "collectives/hostnccl/config.h"
#include "collectives/hostnccl/outcome.h"

namespace stepgate::hostnccl {

struct ChildRequest {
  enum Kind { kSplit, kShrink };
  Kind kind = kSplit;
  int color = 0;
  int key = 0;
  std::vector<int> excluded = {};
  Config config = {};  // of the child
};

// Which of `size` ranks a shrink leaves, by rank. ncclInvalidArgument where the list is empty, names a rank
// twice or none of the communicator's, or this one.
Outcome ranks_left(std::vector<int> excluded, int rank, int size, std::vector<int>* left);
// Of the ranks with `color`, by key, then by rank; colors and keys alternate, by rank.
std::vector<int> ranks_of_color(const std::vector<int>& colors_and_keys, int color);

Outcome make_child(Communicator& parent, const ChildRequest& request, std::shared_ptr<Communicator>* child);

}  // namespace stepgate::hostnccl

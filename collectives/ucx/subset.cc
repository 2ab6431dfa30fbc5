#include "collectives/ucx/subset.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

namespace stepgate::transport {
namespace {

constexpr auto kAgain = std::chrono::milliseconds(20);

std::string text(int rank) {
  return std::to_string(rank);
}

int place_in(const std::vector<int>& members, const World& parent) {
  std::vector<int> sorted = members;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty() || sorted.front() < 0 || sorted.back() >= parent.size())
    throw Error(SGT_INVALID, "the list names no rank, or ranks outside 0.." + text(parent.size() - 1));
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    throw Error(SGT_INVALID, "the list names a rank twice");
  const auto me = std::find(members.begin(), members.end(), parent.rank());
  if (me == members.end())
    throw Error(SGT_INVALID, "rank " + text(parent.rank()) + " is not in its own list");
  return static_cast<int>(me - members.begin());
}

// Whoever serves an earlier meeting at the same door, one that failed, may be the one that answers; it turns
// away those who come for the next.
std::unique_ptr<World> knock(const IdLayout& id, int rank, int size, Options options) {
  const Deadline deadline = Deadline::after(options.timeout_seconds);
  for (;;) {
    try {
      return std::make_unique<World>(id, rank, size, options);
    } catch (const TurnedAway&) {
      if (deadline.passed() || (options.cancelled && options.cancelled())) throw;
    }
    std::this_thread::sleep_for(kAgain);
    options.arrive_seconds =
        std::max(0.001, std::chrono::duration<double>(deadline.at() - Clock::now()).count());
  }
}

}  // namespace

std::unique_ptr<World> create_subset(const World& parent, const std::vector<int>& members,
                                     const Options& options, Listeners* listeners, uint64_t* number) {
  const int rank = place_in(members, parent);
  const IdLayout id = subset_id(parent.door_of(members.front()), members);
  *number = rank == 0 ? listeners->open_at(parent.door().copy(), id) : 0;
  try {
    return knock(id, rank, static_cast<int>(members.size()), options);
  } catch (const Refused& refused) {
    throw Error(SGT_PEER_DEAD, "nobody is behind its door any more: " + refused.failure().message, 0);
  } catch (const TurnedAway&) {
    throw Error(SGT_TIMEOUT, "the ranks that met do not agree on who belongs to the new world", -1);
  }
}

}  // namespace stepgate::transport

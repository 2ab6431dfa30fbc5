#include "collectives/ucx/meeting.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "collectives/ucx/host_identity.h"
#include "collectives/ucx/world.h"

namespace stepgate::transport {
namespace {

struct Card {
  std::string host;
  std::string process;
  std::string transports;
  IdLayout door{};
};

Card parse(const std::string& blob) {
  std::vector<std::string> parts;
  IdLayout door;
  if (!unpack_list(blob, &parts) || parts.size() != 4 || !unpack(parts[3], &door))
    throw Error(SGT_SYSTEM, "a rank introduced itself in an unknown form");
  return {parts[0], parts[1], parts[2], door};
}

std::vector<Card> exchange_cards(Control& control, const std::string& transports, const IdLayout& door) {
  std::vector<Card> cards;
  const std::string mine = pack_list({host_identity(), std::to_string(getpid()), transports, pack(door)});
  for (const std::string& blob : control.exchange(mine)) cards.push_back(parse(blob));
  return cards;
}

void require_agreement(const std::vector<Card>& cards) {
  for (size_t rank = 1; rank < cards.size(); ++rank)
    if (cards[rank].transports != cards[0].transports)
      throw Error(SGT_INVALID,
                  "rank " + std::to_string(rank) + " asks for transports '" + cards[rank].transports +
                      "', rank 0 for '" + cards[0].transports + "'",
                  static_cast<int>(rank));
}

bool use_shared_memory(const std::string& transports, bool one_host) {
  if (transports == "shm" && !one_host)
    throw Error(SGT_INVALID, "transports 'shm' needs all ranks on one host; use 'auto' or 'tcp'");
  return transports == "shm" || (transports == "auto" && one_host);
}

std::string tcp_device(const Control& control, const std::string& interface) {
  return device_of(interface.empty() ? control.local_address() : resolve_local(interface));
}

}  // namespace

Meeting meet(Control& control, const IdLayout& id, Place place, const Options& options,
             const IdLayout& door) {
  const std::vector<Card> cards = exchange_cards(control, options.transports, door);
  require_agreement(cards);
  const std::string& here = cards[static_cast<size_t>(place.rank)].host;
  const auto is_here = [&here](const Card& card) { return card.host == here; };
  Meeting meeting;
  for (const Card& card : cards) meeting.doors.push_back(card.door);
  meeting.ranks_here = static_cast<int>(std::count_if(cards.begin(), cards.end(), is_here));
  meeting.fabric.size = place.size;
  meeting.fabric.shared_memory = use_shared_memory(options.transports, meeting.ranks_here == place.size);
  meeting.fabric.device = tcp_device(control, options.interface);
  const auto owner = std::find_if(cards.begin(), cards.end(), [&id](const Card& card) {
    return card.host == id.host && card.process == std::to_string(id.process);
  });
  if (owner != cards.end()) meeting.coordinator_rank = static_cast<int>(owner - cards.begin());
  return meeting;
}

std::string describe_timeout(int rank, int peer, double seconds, const char* operation) {
  char text[128];
  const std::string whom = peer < 0 ? "its peers" : "rank " + std::to_string(peer);
  std::snprintf(text, sizeof text, "rank %d waited %g s for %s in %s", rank, seconds, whom.c_str(),
                operation);
  return text;
}

}  // namespace stepgate::transport

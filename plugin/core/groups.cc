#include "plugin/core/groups.h"

#include <algorithm>

#include "collectives/core/gate_block.h"

namespace stepgate::gate {

bool Chain::whole() const noexcept {
  return std::all_of(links.begin(), links.begin() + count, [](const Link& l) { return l.comm != nullptr; });
}

bool Groups::has(ncclComm_t comm) const noexcept {
  return std::any_of(list_.begin(), list_.end(), [comm](const Group& g) { return g.link.comm == comm; });
}

void Groups::add(ncclComm_t comm, const NcclTable* table, int world) {
  list_.push_back({{comm, table}, world});
}

bool Groups::remove(ncclComm_t comm) noexcept {
  for (Chain::Link& link : chain_.links) {
    if (link.comm == comm) link.comm = nullptr;
  }
  return std::erase_if(list_, [comm](const Group& g) { return g.link.comm == comm; }) != 0;
}

void Groups::clear() noexcept {
  list_.clear();
  chain_ = {};
}

std::uint32_t Groups::digest() const {
  std::vector<int> sizes;
  for (const Group& g : list_) sizes.push_back(g.world);
  return static_cast<std::uint32_t>(sizes.size()) << 16 | digest16(sizes.data(), sizes.size() * sizeof(int));
}

bool Groups::fix_chain(int world, std::string* why) {
  chain_ = {};
  const auto spans = [world](const Group& g) { return g.world == world; };
  const auto alone = std::find_if(list_.begin(), list_.end(), spans);
  if (alone != list_.end()) {
    chain_.links[chain_.count++] = alone->link;
    return true;
  }
  long long product = 1;
  for (const Group& g : list_) {
    if (g.world == 1) continue;  // nobody to sum with: a dimension of the mesh that is not used
    product *= g.world;
    if (product > world) break;
    chain_.links[chain_.count++] = g.link;
  }
  if (product == world && chain_.count != 0) return true;
  chain_ = {};
  *why = no_chain(world);
  return false;
}

int Groups::largest() const noexcept {
  int most = 0;
  for (const Group& g : list_) most = std::max(most, g.world);
  return most;
}

std::string Groups::no_chain(int world) const {
  std::string sizes;
  for (const Group& g : list_) sizes += (sizes.empty() ? "" : " x ") + std::to_string(g.world);
  return "none of the gate's " + std::to_string(list_.size()) + " groups spans its world of " +
         std::to_string(world) + " ranks" +
         (list_.size() > 1 ? ", nor do they together (sizes " + sizes + ")" : "") +
         "; add that communicator, or one for each dimension of the mesh, with stepgate_add_group";
}

}  // namespace stepgate::gate

// Groups: the communicators that a job gave its gate, in the order in which all ranks gave them, and the
// chain of those that carry the exchange.
//
// One group that spans the agreement carries it alone. Where there is none, the ranks form a mesh (tensor x
// pipeline x data, say): a SUM over each group in turn is the SUM over all of them, each rank once, if the
// product of their sizes is the agreement's size. That each rank takes part once is what the activation
// checks; the order is the registered one everywhere, for collectives on several communicators of one device
// must run in one order on all ranks.
//
// Thread: any, under the gate's lock; a Chain is a value and is worked on without one.
// Ownership: communicators are the job's; tables belong to the shim and stay.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "plugin/core/core_entry.h"

namespace stepgate::gate {

inline constexpr std::size_t kMaxGroups = 8;  // of one gate; a mesh of eight dimensions

// What carries one exchange, in order. Nothing of it is allocated: steps copy it.
struct Chain {
  struct Link {
    ncclComm_t comm = nullptr;  // nullptr: it has gone since the activation
    const NcclTable* table = nullptr;
  };
  std::array<Link, kMaxGroups> links{};
  std::size_t count = 0;

  bool whole() const noexcept;
  // Sums may reach some ranks and not others of one exchange.
  bool in_turns() const noexcept { return count > 1; }
};

class Groups {
 public:
  bool has(ncclComm_t comm) const noexcept;
  bool full() const noexcept { return list_.size() == kMaxGroups; }
  std::size_t size() const noexcept { return list_.size(); }
  // Not one that it has, and not where it is full. world: ranks of the communicator.
  void add(ncclComm_t comm, const NcclTable* table, int world);
  // From the list, and from the chain, which does not look for another. False: not in the list.
  bool remove(ncclComm_t comm) noexcept;

  void clear() noexcept;

  // The number of groups and a digest of their sizes in order: what an activation compares.
  std::uint32_t digest() const;

  // Fixes the chain from the list for an agreement of `world` ranks. False, with *why and an empty chain,
  // where the list has none.
  bool fix_chain(int world, std::string* why);
  const Chain& chain() const noexcept { return chain_; }
  // Ranks of the largest; 0 where there is none.
  int largest() const noexcept;

 private:
  struct Group {
    Chain::Link link;
    int world;
  };
  std::string no_chain(int world) const;

  std::vector<Group> list_;
  Chain chain_;
};

}  // namespace stepgate::gate

// A rank's door: a listening socket that every other rank of its world knows from the start, and that
// nobody serves until ranks of that world found a smaller one there. So the ranks that are left can meet
// although the world, or the process that kept its control channel, is gone: the kernel keeps those who
// come early.
//
//   Door door(address);                    // at the world's creation; door.id() goes to all ranks
//   IdLayout id = subset_id(doors[2], {2, 0});   // the same on ranks 2 and 0, who agree on the list
//
// Thread: any; immutable. No lock. Ownership: the socket closes with the world; who serves it holds a copy.
#pragma once

#include <vector>

#include "collectives/ucx/protocol.h"
#include "collectives/ucx/socket.h"

namespace stepgate::transport {

IdLayout make_id(in_addr address, uint16_t port);  // with a random key

class Door {
 public:
  explicit Door(in_addr address);

  const IdLayout& id() const { return id_; }
  Fd copy() const;

 private:
  Fd listener_;
  IdLayout id_{};
};

// What the ranks `members` of a world, in this order, meet under at the door of the first of them.
IdLayout subset_id(const IdLayout& door, const std::vector<int>& members);

}  // namespace stepgate::transport

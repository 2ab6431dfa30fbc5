// The listeners that this process has opened and not yet closed. unique_id() hands out bytes, not a
// handle, so something must own the listener until a world of this process takes it over: this table
// does. It is a member of the C table's own state (table.cc) and there is one per loaded library.
// After a fork the child inherits the entries but not their threads: it leaves them alone.
// Any thread; its own lock. Never destroyed at exit: a thread of it may still be serving then.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/ucx/rendezvous_server.h"

namespace stepgate::transport {

class Listeners {
 public:
  IdLayout open(const std::string& address_or_device);
  // Serves a meeting at a door; the number stands for it below. What an earlier meeting of the same ranks,
  // one that failed, left behind there goes.
  uint64_t open_at(Fd door, const IdLayout& id);

  // A world of this process has come about over the id, or has ended. With the last of them the listener
  // closes. Ids of other processes are not known here and cost nothing.
  void retain(const Key& key);
  void release(const Key& key);
  // The same for a meeting at a door, by the rank whose door it is.
  void retain(uint64_t number);
  void release(uint64_t number);
  // An id that nobody will come to.
  void close(const Key& key);

 private:
  using Server = std::unique_ptr<RendezvousServer>;
  struct Entry {
    Key key;
    uint64_t number;  // 0: not at a door
    pid_t owner;
    int worlds;
    Server server;
  };
  template <typename Is>
  Entry* find(Is is);
  template <typename Is>
  std::vector<Server> take(Is is);
  Server released(Entry* entry);

  std::mutex mutex_;
  std::vector<Entry> entries_;  // under mutex_
  uint64_t last_number_ = 0;    // under mutex_
};

}  // namespace stepgate::transport

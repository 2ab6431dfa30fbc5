// The listeners that this process has opened and not yet closed. unique_id() hands out bytes, not a
// handle, so something must own the listener until a world of this process takes it over: this table
// does. It is a member of the C table's own state (table.cc) and there is one per loaded library.
// After a fork the child inherits the entries but not their threads: it leaves them alone.
// Any thread; its own lock. Never destroyed at exit: a thread of it may still be serving then.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/ucx/rendezvous_server.h"

namespace stepgate::transport {

class Listeners {
 public:
  IdLayout open(const std::string& address_or_device);
  // A world of this process has come about over the id, or has ended. With the last of them the listener
  // closes. Ids of other processes are not known here and cost nothing.
  void retain(const Key& key);
  void release(const Key& key);

 private:
  struct Entry {
    Key key;
    pid_t owner;
    int worlds;
    std::unique_ptr<RendezvousServer> server;
  };
  Entry* find(const Key& key);

  std::mutex mutex_;
  std::vector<Entry> entries_;  // under mutex_
};

}  // namespace stepgate::transport

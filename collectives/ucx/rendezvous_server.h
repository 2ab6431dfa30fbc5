// The owner's end of a unique id: a listener and the small thread that runs the coordinator over its
// connections. Constructed in any thread; the thread it starts takes no signals and ends when all
// ranks have gone, or at destruction, which joins it. Destroy it in the process that made it.
#pragma once

#include <atomic>
#include <map>
#include <thread>

#include "collectives/ucx/coordinator.h"
#include "collectives/ucx/socket.h"

namespace stepgate::transport {

class RendezvousServer {
 public:
  // An IPv4 address or a device name; throws Error.
  explicit RendezvousServer(const std::string& address_or_device);
  // At a door that other meetings may use too: it admits nobody once its world is complete.
  RendezvousServer(Fd door, const IdLayout& id);
  ~RendezvousServer();

  const IdLayout& id() const { return id_; }
  bool finished() const { return finished_.load(); }

 private:
  void start();
  void serve();
  bool wait_for_work();
  void admit(Time now);
  void read(int connection, Time now);
  void drop(int connection, Time now);
  void drop_silent_strangers(Time now);
  void deliver(int connection, uint32_t type, const std::string& body);
  void flush_all();

  struct Peer {
    FrameSocket socket;
    Time since;
  };

  const bool shared_;
  Fd listener_;
  Fd wake_;
  IdLayout id_{};
  Coordinator coordinator_;
  std::map<int, Peer> peers_;  // by descriptor; the thread's
  std::atomic<bool> stop_{false};
  std::atomic<bool> finished_{false};
  std::thread thread_;
};

}  // namespace stepgate::transport

// How a rank that sleeps on its descriptors is woken by one that left something in shared memory: a datagram
// to a socket with a random name in the host's abstract name space.
//
// Thread: one at a time (the world's lock); others' processes ring at any moment. No order, no lock of its
// own. Ownership: the socket is this object's.
#pragma once

#include "collectives/ucx/socket.h"

namespace stepgate::transport {

class Doorbell {
 public:
  struct Name {
    char text[40];
  };

  // Without a socket where none can be had: then open() is false.
  Doorbell();

  bool open() const { return socket_.open(); }
  int fd() const { return socket_.get(); }
  const Name& name() const { return name_; }
  // False: nobody can be reached there. A bell that is full has been rung.
  bool ring(const Name& other) const;
  void silence() const;

 private:
  Name name_{};
  Fd socket_;
};

}  // namespace stepgate::transport

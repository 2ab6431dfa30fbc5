// TCP as the control channel needs it: owned descriptors, an address of a name or device, and frames
// (a type, a length, bytes) read and written without ever blocking.
// One thread per object; no lock. Never raises SIGPIPE. Errors on set-up are thrown, later ones returned.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "collectives/ucx/deadline.h"
#include "collectives/ucx/frame.h"

namespace stepgate::transport {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

// An eventfd: raise() from any thread, drain() and poll() by one.
Fd make_event();
void raise_event(const Fd& event);
void drain_event(const Fd& event);

// The IPv4 address that a dotted address or a device name ("eth0") stands for.
in_addr resolve_local(const std::string& address_or_device);
// The device that owns a local address ("lo"), empty if none does.
std::string device_of(in_addr address);
std::string to_text(in_addr address);

Fd listen_on(in_addr address, uint16_t* port);
Fd accept_one(const Fd& listener);  // closed Fd when nobody is waiting
Fd connect_to(in_addr address, uint16_t port, Deadline deadline);
in_addr local_address(const Fd& socket);

class FrameSocket {
 public:
  explicit FrameSocket(Fd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  bool open() const { return socket_.open(); }
  bool wants_write() const { return !outgoing_.empty(); }
  void close() { socket_.reset(); }

  // Queues and writes what fits; the rest leaves with later calls of flush().
  void send(uint32_t type, const std::string& body);
  void flush();
  // Reads what has arrived; false once the peer has closed. Hand out next() before acting on the end.
  bool fill();
  std::optional<Frame> next();
  // A longer frame ends the connection. Strangers get little; raise it for a peer that proved its key.
  void accept_frames_up_to(size_t bytes) { longest_ = bytes; }

 private:
  Fd socket_;
  std::string incoming_;
  std::string outgoing_;
  size_t longest_ = 1024;
  bool ended_ = false;
};

}  // namespace stepgate::transport

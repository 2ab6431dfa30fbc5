#include "integration/examples/charlm/bootstrap.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

namespace stepgate::charlm {
namespace {

using Clock = std::chrono::steady_clock;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

std::string place(const Meeting& meeting) {
  return meeting.address + ":" + std::to_string(meeting.port);
}

sockaddr_in resolve(const Meeting& meeting) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(meeting.address.c_str(), nullptr, &hints, &found) != 0 || found == nullptr) {
    throw std::runtime_error("MASTER_ADDR " + meeting.address + " is no address of a host");
  }
  sockaddr_in address = *reinterpret_cast<sockaddr_in*>(found->ai_addr);
  freeaddrinfo(found);
  address.sin_port = htons(static_cast<std::uint16_t>(meeting.port));
  return address;
}

int new_socket() {
  return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

void wait_readable(int fd, Clock::time_point deadline, const std::string& what) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd wait{fd, POLLIN, 0};
  if (left <= 0 || poll(&wait, 1, static_cast<int>(left)) <= 0) throw std::runtime_error(what);
}

void serve(const Meeting& meeting, const ncclUniqueId& id, unsigned peers) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(meeting.seconds));
  const sockaddr_in address = resolve(meeting);
  const Socket listener(new_socket());
  const int yes = 1;
  setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listener.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.fd(), static_cast<int>(peers)) != 0) {
    throw std::runtime_error("rank 0 cannot listen on " + place(meeting));
  }
  for (unsigned served = 0; served < peers;) {
    wait_readable(listener.fd(), deadline, std::to_string(peers - served) + " ranks did not come");
    const Socket peer(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (peer.valid() && send(peer.fd(), &id, sizeof id, MSG_NOSIGNAL) == ssize_t{sizeof id}) ++served;
  }
}

bool try_receive(const Meeting& meeting, const sockaddr_in& address, Clock::time_point deadline,
                 ncclUniqueId& id) {
  const Socket server(new_socket());
  if (connect(server.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return false;
  wait_readable(server.fd(), deadline, "rank 0 does not answer on " + place(meeting));
  return recv(server.fd(), &id, sizeof id, MSG_WAITALL) == ssize_t{sizeof id};
}

ncclUniqueId receive(const Meeting& meeting) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(meeting.seconds));
  const sockaddr_in address = resolve(meeting);
  ncclUniqueId id;
  while (!try_receive(meeting, address, deadline, id)) {
    if (Clock::now() > deadline) throw std::runtime_error("rank 0 is not at " + place(meeting));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return id;
}

}  // namespace

ncclUniqueId exchange_unique_id(const Meeting& meeting, unsigned rank, unsigned world) {
  if (rank != 0) return receive(meeting);
  const ncclUniqueId id = new_unique_id();
  if (world > 1) serve(meeting, id, world - 1);
  return id;
}

}  // namespace stepgate::charlm

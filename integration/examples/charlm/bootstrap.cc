#include "integration/examples/charlm/bootstrap.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

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

Clock::time_point deadline_of(const Meeting& meeting) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(meeting.seconds));
}

// False at the deadline.
bool wait_readable(int fd, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{fd, POLLIN, 0};
    if (left <= 0) return false;
    const int ready = poll(&wait, 1, static_cast<int>(left));
    if (ready > 0) return true;
  }
}

std::string waited(const Meeting& meeting) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", meeting.seconds);
  return std::string("waited ") + seconds + " s (--bootstrap-timeout) on " + place(meeting);
}

std::string missing_ranks(const std::vector<bool>& came) {
  std::string list;
  for (std::size_t rank = 1; rank < came.size(); ++rank) {
    if (!came[rank]) list += (list.empty() ? "" : ", ") + std::to_string(rank);
  }
  return list;
}

// Who is there. Anything else that connects, such as a port scanner, gets a second and no answer.
bool read_rank(const Socket& peer, std::uint32_t& rank, std::size_t world) {
  if (!peer.valid() || !wait_readable(peer.fd(), Clock::now() + std::chrono::seconds(1))) return false;
  return recv(peer.fd(), &rank, sizeof rank, 0) == ssize_t{sizeof rank} && rank > 0 && rank < world;
}

void listen_on(const Socket& listener, const Meeting& meeting, unsigned world) {
  const sockaddr_in address = resolve(meeting);
  const int yes = 1;
  setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listener.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.fd(), static_cast<int>(world)) != 0) {
    throw std::runtime_error("rank 0 cannot listen on " + place(meeting) + ": " + std::strerror(errno));
  }
}

void serve(const Meeting& meeting, const ncclUniqueId& id, unsigned world) {
  const auto deadline = deadline_of(meeting);
  const Socket listener(new_socket());
  listen_on(listener, meeting, world);
  std::vector<bool> came(world, false);
  for (std::string missing; !(missing = missing_ranks(came)).empty();) {
    if (!wait_readable(listener.fd(), deadline)) {
      throw std::runtime_error("rank 0 " + waited(meeting) + "; these ranks did not come: " + missing);
    }
    const Socket peer(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    std::uint32_t rank = 0;
    if (!read_rank(peer, rank, world)) continue;
    if (send(peer.fd(), &id, sizeof id, MSG_NOSIGNAL) == ssize_t{sizeof id}) came[rank] = true;
  }
}

bool try_receive(const sockaddr_in& address, unsigned rank, Clock::time_point deadline, ncclUniqueId& id) {
  const Socket server(new_socket());
  if (connect(server.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return false;
  const std::uint32_t own = rank;
  if (send(server.fd(), &own, sizeof own, MSG_NOSIGNAL) != ssize_t{sizeof own}) return false;
  if (!wait_readable(server.fd(), deadline)) return false;
  return recv(server.fd(), &id, sizeof id, MSG_WAITALL) == ssize_t{sizeof id};
}

ncclUniqueId receive(const Meeting& meeting, unsigned rank) {
  const auto deadline = deadline_of(meeting);
  const sockaddr_in address = resolve(meeting);
  ncclUniqueId id;
  while (!try_receive(address, rank, deadline, id)) {
    if (Clock::now() > deadline) {
      throw std::runtime_error("rank " + std::to_string(rank) + " " + waited(meeting) +
                               "; rank 0 did not answer");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return id;
}

}  // namespace

ncclUniqueId exchange_unique_id(const Meeting& meeting, unsigned rank, unsigned world) {
  if (rank != 0) return receive(meeting, rank);
  const ncclUniqueId id = new_unique_id();
  if (world > 1) serve(meeting, id, world);
  return id;
}

}  // namespace stepgate::charlm

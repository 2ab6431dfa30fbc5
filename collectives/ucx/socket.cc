#include "collectives/ucx/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "collectives/ucx/error.h"

namespace stepgate::transport {
namespace {

std::string reason(int code) {
  return std::strerror(code);
}

[[noreturn]] void fail(const std::string& what, int code = errno) {
  throw Error(SGT_SYSTEM, what + ": " + reason(code));
}

sockaddr_in endpoint(in_addr address, uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr = address;
  out.sin_port = htons(port);
  return out;
}

Fd tcp_socket() {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.open()) fail("cannot open a TCP socket");
  return fd;
}

// A host that vanishes sends no FIN: probe after 5 idle seconds, give up after three more probes.
void set_options(const Fd& fd) {
  const int on = 1, idle = 5, interval = 2, probes = 3;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd.get(), IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd.get(), IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

using Interfaces = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

Interfaces interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) fail("cannot list the network devices");
  return Interfaces(list, &freeifaddrs);
}

const in_addr* ipv4_of(const ifaddrs* device) {
  if (device->ifa_addr == nullptr || device->ifa_addr->sa_family != AF_INET) return nullptr;
  return &reinterpret_cast<const sockaddr_in*>(device->ifa_addr)->sin_addr;
}

int connect_result(const Fd& fd) {
  int code = 0;
  socklen_t size = sizeof code;
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &code, &size);
  return code;
}

}  // namespace

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Fd make_event() {
  Fd event(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!event.open()) fail("cannot open an eventfd");
  return event;
}

void raise_event(const Fd& event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(event.get(), &one, sizeof one);  // full means already raised
}

void drain_event(const Fd& event) {
  uint64_t count;
  [[maybe_unused]] const ssize_t n = ::read(event.get(), &count, sizeof count);  // empty is fine
}

in_addr resolve_local(const std::string& name) {
  in_addr address{};
  if (inet_pton(AF_INET, name.c_str(), &address) == 1) return address;
  const Interfaces list = interfaces();
  for (const ifaddrs* it = list.get(); it != nullptr; it = it->ifa_next)
    if (name == it->ifa_name && ipv4_of(it) != nullptr) return *ipv4_of(it);
  throw Error(SGT_INVALID, "interface '" + name + "' is neither an IPv4 address nor a device that has one");
}

std::string device_of(in_addr address) {
  const Interfaces list = interfaces();
  for (const ifaddrs* it = list.get(); it != nullptr; it = it->ifa_next)
    if (ipv4_of(it) != nullptr && ipv4_of(it)->s_addr == address.s_addr) return it->ifa_name;
  const bool loopback = (ntohl(address.s_addr) >> 24) == 127;
  return loopback ? "lo" : "";
}

std::string to_text(in_addr address) {
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &address, text, sizeof text);
  return text;
}

Fd listen_on(in_addr address, uint16_t* port) {
  Fd fd = tcp_socket();
  sockaddr_in where = endpoint(address, 0);
  socklen_t size = sizeof where;
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&where), size) != 0) fail("cannot bind " + to_text(address));
  if (listen(fd.get(), SOMAXCONN) != 0) fail("cannot listen on " + to_text(address));
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&where), &size) != 0) fail("getsockname");
  *port = ntohs(where.sin_port);
  return fd;
}

Fd accept_one(const Fd& listener) {
  Fd fd(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.open()) set_options(fd);
  return fd;
}

Fd connect_to(in_addr address, uint16_t port, Deadline deadline) {
  Fd fd = tcp_socket();
  const sockaddr_in where = endpoint(address, port);
  const std::string what = "cannot reach the rendezvous at " + to_text(address) + ":" + std::to_string(port);
  int code = 0;
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0) code = errno;
  while (code == EINPROGRESS || code == EINTR) {
    if (deadline.passed()) throw Error(SGT_TIMEOUT, what + ": no answer before the deadline");
    pollfd ready{fd.get(), POLLOUT, 0};
    if (poll(&ready, 1, deadline.milliseconds(1000)) > 0) code = connect_result(fd);
  }
  if (code == ECONNREFUSED) throw Refused(SGT_SYSTEM, what + ": " + reason(code));
  if (code != 0) fail(what, code);
  set_options(fd);
  return fd;
}

in_addr local_address(const Fd& socket) {
  sockaddr_in where{};
  socklen_t size = sizeof where;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&where), &size) != 0) fail("getsockname");
  return where.sin_addr;
}

void FrameSocket::send(uint32_t type, const std::string& body) {
  const uint32_t header[2] = {type, static_cast<uint32_t>(body.size())};
  outgoing_.append(reinterpret_cast<const char*>(header), sizeof header);
  outgoing_.append(body);
  flush();
}

void FrameSocket::flush() {
  while (open() && !outgoing_.empty()) {
    const ssize_t n = ::send(fd(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL);
    if (n > 0) {
      outgoing_.erase(0, static_cast<size_t>(n));
    } else if (errno != EINTR) {
      if (errno != EAGAIN) outgoing_.clear();  // the reading side will see the end
      return;
    }
  }
}

bool FrameSocket::fill() {
  char bytes[4096];
  while (open() && !ended_) {
    const ssize_t n = ::recv(fd(), bytes, sizeof bytes, 0);
    if (n > 0) {
      incoming_.append(bytes, static_cast<size_t>(n));
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      ended_ = true;
    } else if (errno == EAGAIN) {
      break;
    }
  }
  return open() && !ended_;
}

std::optional<Frame> FrameSocket::next() {
  uint32_t header[2];
  if (incoming_.size() < sizeof header) return std::nullopt;
  std::memcpy(header, incoming_.data(), sizeof header);
  if (header[1] > longest_) {
    ended_ = true;
    incoming_.clear();
    return std::nullopt;
  }
  if (incoming_.size() - sizeof header < header[1]) return std::nullopt;
  Frame frame{header[0], incoming_.substr(sizeof header, header[1])};
  incoming_.erase(0, sizeof header + header[1]);
  return frame;
}

}  // namespace stepgate::transport

#include "collectives/ucx/rendezvous_server.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "collectives/signals/blocked_signals.h"
#include "collectives/ucx/door.h"

namespace stepgate::transport {
namespace {

constexpr double kStrangerSeconds = 10;  // to say hello
// A rank that hangs in the creation keeps the server up past every deadline: not at the cost of a core.
constexpr int kLeastWait = 5;            // milliseconds
constexpr size_t kMostStrangers = 1024;  // beyond the world's ranks

IdLayout open_listener(const std::string& where, Fd* listener) {
  const in_addr address = resolve_local(where);
  uint16_t port = 0;
  *listener = listen_on(address, &port);
  return make_id(address, port);
}

}  // namespace

RendezvousServer::RendezvousServer(const std::string& where)
    : shared_(false),
      wake_(make_event()),
      id_(open_listener(where, &listener_)),
      coordinator_(id_.key, [this](int connection, uint32_t type, const std::string& body) {
        deliver(connection, type, body);
      }) {
  start();
}

RendezvousServer::RendezvousServer(Fd door, const IdLayout& id)
    : shared_(true),
      listener_(std::move(door)),
      wake_(make_event()),
      id_(id),
      coordinator_(id_.key, [this](int connection, uint32_t type, const std::string& body) {
        deliver(connection, type, body);
      }) {
  start();
}

void RendezvousServer::start() {
  const signals::BlockedSignals block;
  thread_ = std::thread([this] { serve(); });
}

RendezvousServer::~RendezvousServer() {
  stop_ = true;
  raise_event(wake_);
  thread_.join();
}

void RendezvousServer::serve() {
  while (!stop_.load() && !coordinator_.over(Clock::now())) {
    if (wait_for_work()) admit(Clock::now());
    coordinator_.tick(Clock::now());
    drop_silent_strangers(Clock::now());
    flush_all();
  }
  flush_all();
  peers_.clear();
  listener_.reset();
  finished_ = true;
}

// Reads whatever arrived before any deadline is judged: words count more than silence.
bool RendezvousServer::wait_for_work() {
  const bool full = shared_ && coordinator_.running();
  std::vector<pollfd> fds{{wake_.get(), POLLIN, 0}, {full ? -1 : listener_.get(), POLLIN, 0}};
  for (const auto& [fd, peer] : peers_)
    fds.push_back({fd, static_cast<short>(POLLIN | (peer.socket.wants_write() ? POLLOUT : 0)), 0});
  int timeout = 1000;
  if (const auto next = coordinator_.next_event())
    timeout = std::max(Deadline(*next).milliseconds(timeout), kLeastWait);
  if (poll(fds.data(), fds.size(), timeout) <= 0) return false;
  drain_event(wake_);
  const Time now = Clock::now();
  for (size_t i = 2; i < fds.size(); ++i)
    if ((fds[i].revents & ~POLLOUT) != 0) read(fds[i].fd, now);
  return (fds[1].revents & POLLIN) != 0;
}

void RendezvousServer::admit(Time now) {
  for (Fd fd = accept_one(listener_); fd.open(); fd = accept_one(listener_)) {
    const int number = fd.get();
    if (peers_.size() < kLargestWorld + kMostStrangers)
      peers_.emplace(number, Peer{FrameSocket(std::move(fd)), now});
  }
}

void RendezvousServer::read(int connection, Time now) {
  const auto it = peers_.find(connection);
  if (it == peers_.end()) return;
  FrameSocket& socket = it->second.socket;
  bool keep = socket.fill();
  // At a door there may lie one who came for an attempt that is over, and gave up since.
  if (shared_ && !keep && !coordinator_.known(connection)) return drop(connection, now);
  while (const auto frame = socket.next()) {
    if (!coordinator_.receive(connection, *frame, now)) keep = false;
    if (!keep && !coordinator_.known(connection)) break;
    socket.accept_frames_up_to(kLongestFrame);
  }
  if (!keep) drop(connection, now);
}

void RendezvousServer::drop(int connection, Time now) {
  coordinator_.closed(connection, now);
  peers_.erase(connection);
}

void RendezvousServer::drop_silent_strangers(Time now) {
  for (auto it = peers_.begin(); it != peers_.end();) {
    const bool stale = !coordinator_.known(it->first) && now > it->second.since + seconds(kStrangerSeconds);
    it = stale ? peers_.erase(it) : std::next(it);
  }
}

void RendezvousServer::deliver(int connection, uint32_t type, const std::string& body) {
  const auto it = peers_.find(connection);
  if (it != peers_.end()) it->second.socket.send(type, body);
}

void RendezvousServer::flush_all() {
  for (auto& [fd, peer] : peers_)
    if (peer.socket.wants_write()) peer.socket.flush();
}

}  // namespace stepgate::transport

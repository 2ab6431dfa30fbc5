#include "plugin/core/plane/rendezvous.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "plugin/core/label_text.h"
#include "plugin/core/plane/fork_guard.h"
#include "plugin/core/plane/sockets.h"

namespace stepgate::plane {
namespace {

constexpr char kMagic[8] = {'S', 'G', 'P', 'L', 'A', 'N', 'E', '\0'};
constexpr std::uint32_t kVersion = 1;
constexpr double kCallerSeconds = 5;       // to say hello
constexpr std::size_t kMostCallers = 256;  // at once; the others wait in the kernel's queue
constexpr int kSlice = 50;                 // milliseconds between two looks at `stop`
constexpr double kAnswerSeconds = 2;       // for the answer of a rank 0 that has nobody else to answer
constexpr double kTurnSeconds = 0.1;       // of one rank's turn: a new world takes up to 40 ms, links theirs

template <std::size_t N>
void copy_text(char (&to)[N], const std::string& from) {
  const std::size_t n = std::min(from.size(), N - 1);
  std::memset(to, 0, N);
  std::memcpy(to, from.data(), n);
}

template <std::size_t N>
std::string text_of(const char (&text)[N]) {
  return {text, ::strnlen(text, N)};
}

// Whether a descriptor that never blocks has only nothing to give at the moment.
bool later() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

// All that it said was read.
bool hung_up(int fd) {
  char byte = 0;
  const ssize_t n = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && !later());
}

// Fits the empty send buffer of a new connection; a caller that does not get it calls again.
bool answer(int fd, const std::string& why) {
  Answer answer{};
  std::memcpy(answer.magic, kMagic, sizeof kMagic);
  answer.welcome = why.empty() ? 1 : 0;
  copy_text(answer.text, why);
  return ::send(fd, &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer;
}

}  // namespace

Hello make_hello(const std::string& key, int rank, int world, const sgt_unique_id& id) {
  Hello hello{};
  std::memcpy(hello.magic, kMagic, sizeof kMagic);
  hello.version = kVersion;
  hello.rank = rank;
  hello.world = world;
  copy_text(hello.key, key);
  hello.id = id;
  return hello;
}

std::string judge_hello(const Hello& hello, const std::string& key, int world) {
  if (std::memcmp(hello.magic, kMagic, sizeof kMagic) != 0) return "this is no rank of a StepGate job";
  if (hello.version != kVersion) {
    return "version " + std::to_string(hello.version) + " of the rendezvous; rank 0 speaks " +
           std::to_string(kVersion);
  }
  const std::string theirs = text_of(hello.key);
  const std::string ours = key.substr(0, sizeof hello.key - 1);
  if (theirs != ours) return "run '" + gate::as_label_text(theirs) + "'; rank 0 is of run '" + ours + "'";
  if (hello.world != world) {
    return "a world of " + std::to_string(hello.world) + "; rank 0 has " + std::to_string(world);
  }
  if (hello.rank < 1 || hello.rank >= world) {
    return "rank " + std::to_string(hello.rank) + "; allowed: 1 to " + std::to_string(world - 1);
  }
  return "";
}

double answer_seconds(int world) {
  return kAnswerSeconds + kTurnSeconds * world;
}

RendezvousServer::RendezvousServer(const std::string& host, std::uint16_t port, std::string key, int world)
    : key_(std::move(key)), world_(world) {
  in_addr address = resolve(host);
  if (!is_local(address)) address.s_addr = htonl(INADDR_ANY);
  const int fd = listen_at(address, port);
  if (fd < 0) {
    throw std::runtime_error("cannot listen at " + host + ":" + std::to_string(port) + ": " +
                             errno_text(errno));
  }
  fd_ = fd;
  close_in_children(fd);
  port_ = port_of(fd);
}

RendezvousServer::~RendezvousServer() {
  for (const Caller& c : callers_) ::close(c.fd);
  keep_in_children(fd_);
  ::close(fd_);
}

void RendezvousServer::admit(double now) {
  while (callers_.size() < kMostCallers) {
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    callers_.push_back({fd, now, 0, {}});
  }
}

bool RendezvousServer::poll(double now, const std::function<void(const Hello&)>& welcome,
                            const std::function<void(const std::string&)>& refused) {
  admit(now);
  bool welcomed = false, others_wait = false;
  for (auto it = callers_.begin(); it != callers_.end();) {
    const Heard heard = listen_to(*it, now);
    const std::string why = heard == Heard::kHello ? judge_hello(it->hello, key_, world_) : "";
    const bool waits = heard == Heard::kHello && why.empty() && welcomed;
    others_wait = others_wait || waits;
    if (waits || heard == Heard::kNotYet) {
      ++it;
      continue;
    }
    const bool told = heard == Heard::kHello && answer(it->fd, why);
    if (!why.empty()) {
      refused(why);
    } else if (told) {
      welcomed = true;
      welcome(it->hello);
    }
    ::close(it->fd);
    it = callers_.erase(it);
  }
  return others_wait;
}

// Only the hello has a deadline: who has said it waits for its turn until it hangs up.
RendezvousServer::Heard RendezvousServer::listen_to(Caller& caller, double now) {
  if (caller.read < sizeof(Hello)) {
    char* bytes = reinterpret_cast<char*>(&caller.hello);
    const ssize_t n = ::recv(caller.fd, bytes + caller.read, sizeof(Hello) - caller.read, 0);
    if (n == 0 || (n < 0 && !later())) return Heard::kGone;
    caller.read += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  if (caller.read < sizeof(Hello)) return now - caller.since > kCallerSeconds ? Heard::kGone : Heard::kNotYet;
  return hung_up(caller.fd) ? Heard::kGone : Heard::kHello;
}

RendezvousCall::~RendezvousCall() {
  if (fd_ >= 0) ::close(fd_);
}

bool RendezvousCall::wait(short events, double until) const {
  pollfd fd{fd_, events, 0};
  while (!stop_ && steady_seconds() < until) {
    if (::poll(&fd, 1, kSlice) > 0) return true;
  }
  return false;
}

bool RendezvousCall::connect(const std::string& host, std::uint16_t port, double seconds,
                             std::string* error) {
  const std::string where = host + ":" + std::to_string(port);
  try {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr = resolve(host);
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd_ < 0) throw std::runtime_error("no socket: " + errno_text(errno));
    const double until = steady_seconds() + seconds;
    int code = ::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 ? 0 : errno;
    if (code == EINPROGRESS) {
      if (!wait(POLLOUT, until)) throw std::runtime_error("no answer from " + where);
      socklen_t size = sizeof code;
      ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &code, &size);
    }
    if (code != 0) throw std::runtime_error("cannot reach " + where + ": " + errno_text(code));
    return true;
  } catch (const std::exception& e) {
    *error = e.what();
    return false;
  }
}

std::string RendezvousCall::local_address() const {
  return address_of(fd_);
}

bool RendezvousCall::ask(const Hello& hello, double seconds, bool* refused, std::string* error) {
  *refused = false;
  Answer answer{};
  std::size_t read = 0;
  const double until = steady_seconds() + seconds;
  bool sound = ::send(fd_, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello;
  while (sound && read < sizeof answer) {
    sound = wait(POLLIN, until);
    const ssize_t n =
        sound ? ::recv(fd_, reinterpret_cast<char*>(&answer) + read, sizeof answer - read, 0) : 0;
    if (n > 0) read += static_cast<std::size_t>(n);
    sound = n > 0 || (n < 0 && later());
  }
  if (!sound || std::memcmp(answer.magic, kMagic, sizeof kMagic) != 0) {
    *error = "rank 0 gave no answer at the rendezvous";
    return false;
  }
  if (answer.welcome == 1) return true;
  *refused = true;
  *error = "rank 0 does not let this rank in: " + gate::as_label_text(text_of(answer.text));
  return false;
}

}  // namespace stepgate::plane

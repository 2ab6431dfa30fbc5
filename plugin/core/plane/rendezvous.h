// The rendezvous of a run: rank 0 listens at one known address, the others call, say who they are and
// hand over the transport's unique id at which they wait for rank 0. One short exchange per call:
//
//   caller   Hello {version, key, rank, world, id}
//   rank 0   Answer {welcome, or why not}       and both close
//
// The key is the run id with the restart counts: a process left over from another run or restart is
// told so and not let in. It is no secret: who can reach the port can be a rank, as with the port of
// the job's own store (SECURITY.md).
//
// Thread: the plane's own; nothing here waits longer than its deadline. Errors are sentences.
// Ownership: the sockets are the object's; a forked child's copy of the listener is closed (fork_guard.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/ucx/transport.h"

namespace stepgate::plane {

struct Hello {
  char magic[8];
  std::uint32_t version;
  std::int32_t rank;
  std::int32_t world;
  std::uint32_t reserved;
  char key[256];
  sgt_unique_id id;
};
struct Answer {
  char magic[8];
  std::uint32_t welcome;
  char text[244];
};
static_assert(sizeof(Hello) == 408 && sizeof(Answer) == 256, "both travel as bytes: change the version too");

Hello make_hello(const std::string& key, int rank, int world, const sgt_unique_id& id);
// "" welcome, else why not, in text that a log can take whatever the hello says. Pure.
std::string judge_hello(const Hello& hello, const std::string& key, int world);

// How long a caller waits for its turn: rank 0 lets the ranks of a job in one after the other. Pure.
double answer_seconds(int world);

class RendezvousServer {
 public:
  // Throws std::runtime_error with a sentence. Listens at the host's address where it is one of this
  // machine, else (a container behind another address) on every interface.
  RendezvousServer(const std::string& host, std::uint16_t port, std::string key, int world);
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  // One look, without waiting: `welcome` for at most one caller that was let in, as that may take its time,
  // `refused` with a sentence for each that was not. True: others have said hello and wait. One that has hung
  // up is forgotten: nobody would come to meet whom it let in.
  bool poll(double now, const std::function<void(const Hello&)>& welcome,
            const std::function<void(const std::string&)>& refused);
  std::uint16_t port() const { return port_; }  // of port 0: the one that was found

 private:
  struct Caller {
    int fd;
    double since;
    std::size_t read;
    Hello hello;
  };
  enum class Heard { kNotYet, kHello, kGone };

  void admit(double now);
  static Heard listen_to(Caller& caller, double now);

  const std::string key_;
  const int world_;
  int fd_ = -1;
  std::uint16_t port_ = 0;
  std::vector<Caller> callers_;
};

// One call of another rank. `stop` ends it early.
class RendezvousCall {
 public:
  explicit RendezvousCall(const std::atomic<bool>& stop) : stop_(stop) {}
  ~RendezvousCall();
  RendezvousCall(const RendezvousCall&) = delete;
  RendezvousCall& operator=(const RendezvousCall&) = delete;

  bool connect(const std::string& host, std::uint16_t port, double seconds, std::string* error);
  // The address by which rank 0 sees this machine: where this rank's own listener has to be.
  std::string local_address() const;
  // False with *error; *refused where rank 0 said so itself.
  bool ask(const Hello& hello, double seconds, bool* refused, std::string* error);

 private:
  bool wait(short events, double until) const;
  const std::atomic<bool>& stop_;
  int fd_ = -1;
};

}  // namespace stepgate::plane

// The rules of a world's control plane, without sockets: who has arrived, what all of them said, and,
// when something goes wrong, the one verdict that every rank hears. Because one place decides, a rank
// that gave up is not blamed by its neighbours for the rank that made it give up.
//
//   gathering  hello and blobs of all ranks; a wrong size, a rank twice, a death or the earliest
//              deadline refuses the world for everybody, now and later
//   running    report -> verdict at once; a closed connection without leave -> that rank is dead;
//              suspect -> verdict after a grace in which the suspect's own words count more;
//              timeout -> query all, then follow "waits for" from the reporter to the rank that waits
//              for nobody or does not answer: that one is named
//   over       the first verdict stands; later ones are dropped
//
// Thread: the one of the rendezvous server (or a test); time is passed in. No lock. Frames go out through the
// sink.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collectives/ucx/deadline.h"
#include "collectives/ucx/frame.h"
#include "collectives/ucx/protocol.h"

namespace stepgate::transport {

class Coordinator {
 public:
  using Connection = int;
  using Sink = std::function<void(Connection, uint32_t type, const std::string& body)>;

  Coordinator(Key key, Sink sink) : key_(key), sink_(std::move(sink)) {}

  // False: the peer is a stranger or talks nonsense; drop the connection.
  bool receive(Connection from, const Frame& frame, Time now);
  void closed(Connection connection, Time now);
  // Acts on deadlines. Call it at next_event() at the latest.
  void tick(Time now);
  std::optional<Time> next_event() const;

  bool known(Connection connection) const { return ranks_.count(connection) != 0; }
  // Every rank has arrived.
  bool running() const { return running_; }
  // Nobody will need this coordinator any more.
  bool over(Time now) const;

 private:
  struct Member {
    Connection connection = -1;
    bool left = false;
    std::optional<std::string> blob;
    std::optional<int> waits_for;  // answer to the running inquiry
  };
  struct Inquiry {
    int reporter;
    Time until;
    std::string words;
  };
  struct Suspicion {
    int rank;
    Time until;
  };

  bool hello(Connection from, const std::string& body, Time now);
  void admit(Connection from, const Hello& hello, Time now);
  bool blob(int rank, const std::string& body);
  bool report(int rank, const std::string& body, Time now);
  void start_inquiry(int rank, const Failure& failure, Time now);
  bool waits(int rank, const std::string& body);
  bool suspect(const std::string& body, Time now);
  void leave(int rank);

  void settle_inquiry(Time now);
  int owes_blob() const;
  bool everyone_answered() const;
  void refuse_late(Time now);
  void conclude(Failure verdict, Time now);
  void broadcast(uint32_t type, const std::string& body);
  std::string missing(int* first) const;
  bool has_rank(int rank) const { return rank >= 0 && rank < size(); }
  int size() const { return static_cast<int>(members_.size()); }

  const Key key_;
  const Sink sink_;
  std::vector<Member> members_;      // by rank; sized by the first hello
  std::map<Connection, int> ranks_;  // live connections
  int arrived_ = 0;
  bool running_ = false;          // every rank has arrived
  std::optional<Time> deadline_;  // of arriving
  std::optional<Failure> verdict_;
  Time verdict_at_{};
  std::optional<Inquiry> inquiry_;
  std::optional<Suspicion> suspicion_;
};

}  // namespace stepgate::transport

// Watches the ranks: prints their output, passes signals on, ends all of them when one fails.
//
// Thread: the launcher's only one. Order: construct (blocks the signals it reads), add() each rank,
// run(). Lock: none. Ownership: owns the ranks; its destructor kills and reaps what still runs.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "integration/command/run/child.h"

namespace stepgate::command {

// What ended the run: the first rank that failed.
struct Failure {
  unsigned rank;
  int status;  // as a shell gives it: the exit status, or 128 + signal
};

class Supervisor {
 public:
  explicit Supervisor(std::chrono::duration<double> grace);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor();

  void add(StartedRank rank);
  // Returns when every rank has ended and its output is printed.
  std::optional<Failure> run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Rank {
    StartedRank process;
    bool ended = false;
  };
  struct Exit {
    unsigned rank;
    int code;  // CLD_EXITED, CLD_KILLED, CLD_DUMPED
    int value;
  };

  bool all_ended() const;
  int timeout_ms() const;
  void wait_for_events();
  void handle_signal(int signal_number);
  void reap();
  std::vector<Exit> ended_now();
  void record(const Exit& exit);
  void end_others();
  void kill_when_due();
  void signal_running(int signal_number);
  void drain();

  int signals_;
  std::chrono::duration<double> grace_;
  std::vector<Rank> ranks_;
  std::optional<Failure> failure_;
  std::optional<Clock::time_point> kill_at_;
  std::optional<Clock::time_point> interrupted_at_;
};

}  // namespace stepgate::command

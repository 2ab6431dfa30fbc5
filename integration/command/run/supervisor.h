// Watches the ranks: prints their output, passes signals on, ends all of them when one fails.
//
// Thread: the launcher's only one. Order: construct (blocks the signals it reads), add() each rank,
// run(). Lock: none. Ownership: owns the ranks; its destructor kills and reaps what still runs. A reader
// that pauses holds the ranks' output up, never the signals and deadlines.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "integration/command/run/child.h"

namespace stepgate::command {

class Supervisor {
 public:
  explicit Supervisor(std::chrono::duration<double> grace);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor();

  // Where the ranks' lines go; they outlive the ranks.
  Output& out() { return out_; }
  Output& err() { return err_; }
  void add(StartedRank rank);
  // Returns when every rank has ended, what they left in their groups is killed and their output is
  // printed. The exit status of the first rank that failed as a shell gives it (the rank's own, or
  // 128 + signal), 1 when output was lost, else 0.
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Rank {
    StartedRank process;
    bool ended = false;  // but not reaped before the end of the run: its group's number stays its own
    bool reaped = false;
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
  void check_output();
  void end_others();
  void set_deadline();
  void kill_when_due();
  void signal_running(int signal_number);
  void end_groups();
  void drain();
  bool wait_for_outputs();
  void read_signals();
  void say(const std::string& line) { err_.add("stepgate run: " + line + "\n"); }
  void tell(const Exit& exit);

  int signals_;
  Output out_{1};
  Output err_{2};
  std::chrono::duration<double> grace_;
  std::vector<Rank> ranks_;
  std::optional<int> failure_;  // exit status
  int output_error_ = 0;
  std::optional<Clock::time_point> kill_at_;
  std::optional<Clock::time_point> interrupted_at_;
  std::optional<Clock::time_point> give_up_at_;  // on output that nobody takes
};

}  // namespace stepgate::command

// Ranks as child processes: started with fork and exec, their output read line by line with a deadline,
// killed and reaped whatever happens to the test. One thread.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/collectives/ucx/ranks.h"

namespace stepgate::transport::testing {

class Process {
 public:
  explicit Process(const std::vector<std::string>& arguments);
  ~Process();
  Process(const Process&) = delete;

  void signal(int number) const;
  // The next line of output; empty at the end of output or at the deadline.
  std::string line(double seconds = 60);
  // Exit status as waitpid gives it; -1 at the deadline.
  int wait(double seconds = 60);
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  std::string buffered_;
};

using Processes = std::vector<std::unique_ptr<Process>>;

// `size` rank processes over a fresh id whose coordinator runs in this process.
Processes start_ranks(int size, const Setting& setting, const std::string& what);

// The line that a rank says at its end, taken apart.
struct Said {
  int status = -1;
  int culprit = -2;
  std::string message;
};
Said last_words(Process& process, double seconds = 60);

}  // namespace stepgate::transport::testing

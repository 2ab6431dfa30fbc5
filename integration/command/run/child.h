// Starts one rank: its own process group, pipes for its output, death with the launcher.
//
// Thread: the launcher's only one. Order: start_rank() per rank. Lock: none.
// Ownership: the caller owns the process and reaps it; the pipes belong to the LinePipes.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "integration/command/run/output.h"

namespace stepgate::command {

struct StartedRank {
  pid_t pid;
  LinePipe out;
  LinePipe err;
};

// out, err: where the rank's lines go. program[0] is looked up in PATH. Throws std::system_error naming the
// program when it cannot start.
StartedRank start_rank(unsigned rank, const std::vector<std::string>& program,
                       const std::vector<std::string>& environment, Output& out, Output& err);

}  // namespace stepgate::command

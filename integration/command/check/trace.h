// Runs a program and looks at each of its processes just before it ends, when all that it has called of NCCL
// is bound and its memory is still there. By ptrace: the processes run at their own speed, and end with this
// command.
//
// Thread: main, before any other thread exists (it forks). Order: once. Lock: none. Ownership: the processes
// are this function's; those that still run at the deadline are looked at, then ended.
#pragma once

#include <string>
#include <vector>

#include "integration/command/check/process.h"

namespace stepgate::command {

struct TraceResult {
  std::vector<ProcessFindings> processes;  // that have to do with NCCL; at least the program itself
  int status = 0;                          // of the program: as a shell gives it
  bool ended_by_us = false;                // the deadline had passed
};

// program[0] is looked up in PATH; its standard output goes to standard error. Throws std::runtime_error.
TraceResult trace_program(const std::vector<std::string>& program,
                          const std::vector<std::string>& environment, double seconds);

}  // namespace stepgate::command

// hostnccl's environment, the only place that reads it.
//
//   STEPGATE_HOSTNCCL_TIMEOUT    seconds that any wait may take; default 600; 0.001 to 604800
//   STEPGATE_HOSTNCCL_TRANSPORT  auto, tcp or shm; default auto
//   STEPGATE_HOSTNCCL_LAUNCH_DELAY_US  for tests: microseconds that the thread behind a call that does not
//                                block sleeps before it enqueues; default 0; 0 to 10000000
//
// Read at every ncclCommInitRank, in the thread that calls it, so each communicator keeps the
// settings it was created under. No lock, no state; the result is the caller's.
#pragma once

#include <string>

#include "collectives/hostnccl/outcome.h"

namespace stepgate::hostnccl {

struct Config {
  double timeout_seconds = 600;
  std::string transport = "auto";
  unsigned launch_delay_us = 0;
  bool blocking = true;  // the caller's choice, not the environment's
};

// How a variable is looked up; NULL where it is unset. Tests pass their own.
using Lookup = const char* (*)(const char* name);

// A bad value leaves *config alone and comes back as ncclInvalidUsage with name, value and range.
Outcome read_config(Lookup lookup, Config* config);
Outcome read_config_from_environment(Config* config);

// Loading UCX installs signal handlers and patches libc's mmap family; these settings, written only
// where the job has none of its own, keep it from doing so.
//
// setenv races with a getenv in any other thread. It is done once, by the first ncclGetUniqueId or
// ncclCommInitRank of the process: job start, where a program has not yet started the threads that
// read the environment. A launcher that exports the four names beforehand removes even that.
void make_ucx_environment_safe();

}  // namespace stepgate::hostnccl

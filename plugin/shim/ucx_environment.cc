// Makes UCX safe to load where the plane is asked for and no launcher has done so: libucs acts when it is
// loaded, by these variables, and setenv() races with getenv() in the job's threads, so it is done here,
// before main() and before there are threads. Nothing happens in a process that does not ask.
//
// Thread: the loader's, once. What the job has set itself stays, and what is its MPI's.
#include <cstdlib>
#include <cstring>

#include "plugin/core/mpi_launchers.h"

namespace {

__attribute__((constructor)) void make_ucx_safe() {
  const char* plane = std::getenv("STEPGATE_PLANE");
  if (plane == nullptr || std::strcmp(plane, "on") != 0) return;
  constexpr int kKeepTheJobsOwn = 0;
  setenv("UCX_ERROR_SIGNALS", "", kKeepTheJobsOwn);
  setenv("UCX_DEBUG_SIGNO", "0", kKeepTheJobsOwn);
  setenv("UCX_HANDLE_ERRORS", "none", kKeepTheJobsOwn);
  if (!stepgate::started_by_mpi([](const char* name) { return std::getenv(name); })) {
    setenv("UCX_MEM_EVENTS", "n", kKeepTheJobsOwn);
  }
  setenv("UCX_WARN_UNUSED_ENV_VARS", "n", kKeepTheJobsOwn);
}

}  // namespace

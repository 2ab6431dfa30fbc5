// JobIdentity: which rank of which job this process is, from whatever launcher started it. The one
// place that reads launchers' variables.
//
//   torchrun   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE      (and `stepgate run`)
//   Open MPI   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
//   PMIx       PMIX_RANK                                           (it exports no size)
//   Slurm      SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE
//
// The first of these that gives a rank names this process: the inner launcher wins, since torchrun runs
// inside of an mpirun or srun and not the other way round. What it does not say is taken from the next
// one that gives the same rank. Another launcher that started as many processes and numbers this one
// differently, or that started more, is a contradiction: told in `doubts`, and the first still holds.
// A launcher that started fewer is a level above (one srun task per machine) and is none.
//
// run_id: STEPGATE_RUN_ID, TORCHELASTIC_RUN_ID (but "none", torchrun's default), SLURM_JOB_ID with
// SLURM_STEP_ID, PMIX_NAMESPACE. Restarts are counted by TORCHELASTIC_RESTART_COUNT (torchrun's workers)
// and SLURM_RESTART_COUNT (the requeued job): one may happen inside the other, so both are kept.
//
// Thread: any; a pure function of the environment that it is given. Ownership: the caller's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stepgate::gate {

// Looks a variable up: nullptr when it is unset.
using Environment = std::function<const char*(const char*)>;

struct JobIdentity {
  std::uint64_t rank = 0, world = 1, local_rank = 0, local_world = 1;
  std::string launcher;  // "torchrun", "Open MPI", "PMIx", "Slurm"; "" none: one process
  std::string run_id;
  std::optional<std::uint64_t> torchelastic_restarts, slurm_restarts;  // unset: nobody counts them
  std::vector<std::string> doubts;                                     // one sentence each, for the log
};

// True, or false with *error naming the variable, its value and what is allowed.
bool read_identity(const Environment& environment, JobIdentity* out, std::string* error);

// Every variable that read_identity looks at, each a row of the configuration table.
std::span<const char* const> identity_names();

// What makes two processes ranks of one run: run id and both restart counts, as one text.
std::string run_key(const JobIdentity& identity);

}  // namespace stepgate::gate

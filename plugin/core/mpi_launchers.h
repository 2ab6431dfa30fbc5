// The variables by which a process knows that an MPI started it. Its MPI may be on UCX, whose registration
// cache needs memory events: UCX_MEM_EVENTS is that MPI's there, and not ours to set or to ask for.
//
// Thread: any. No state. Shared by the shim, which sets UCX's variables before there are threads, and the
// core, which looks whether they are set.
#pragma once

#include <algorithm>
#include <iterator>

namespace stepgate {

// Open MPI's, PMIx's (Open MPI, Slurm), PMI's (MPICH and its kin, Slurm).
inline constexpr const char* kMpiRankVariables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};

// variable(name): its value, nullptr where it is not set.
template <class Lookup>
bool started_by_mpi(const Lookup& variable) {
  return std::any_of(std::begin(kMpiRankVariables), std::end(kMpiRankVariables),
                     [&](const char* name) { return variable(name) != nullptr; });
}

}  // namespace stepgate

// hostnccl beside Open MPI in the same processes: every collective x type x operator x odd size, in place and
// apart, on whole numbers, so that equality is exact.
//
//   mpirun -n 4 hostnccl_conformance
//
// Prints how many comparisons were made of what; exits with 1 on every rank if one of them differed.
#include <mpi.h>

#include <cstdio>

#include "tests/collectives/hostnccl_mpi/checker.h"

using namespace stepgate::hostnccl::test;  // NOLINT(google-build-using-namespace): the program is a test

namespace {

// Everything that this program is there to compare.
constexpr const char* kCollectives[] = {"all-gather", "all-reduce",         "all-to-all", "broadcast",
                                        "gather",     "pre-multiplied sum", "reduce",     "reduce-scatter",
                                        "scatter",    "send and receive"};

bool report(const Checker& checker) {
  long differences = checker.differences();
  MPI_Allreduce(MPI_IN_PLACE, &differences, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  bool complete = true;
  for (const char* name : kCollectives) {
    const auto found = checker.compared().find(name);
    const long compared = found == checker.compared().end() ? 0 : found->second;
    complete = complete && compared > 0;
    if (checker.rank() == 0) std::printf("%-20s %6ld comparisons on rank 0\n", name, compared);
  }
  if (checker.rank() == 0)
    std::printf("%d ranks: %ld differences%s\n", checker.size(), differences,
                complete ? "" : ", and something was not compared at all");
  return differences == 0 && complete;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Checker checker(rank, size);
  ncclUniqueId id = {};
  if (rank == 0) checker.nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  ncclComm_t comm = nullptr;
  checker.nccl(ncclCommInitRank(&comm, size, id, rank), "ncclCommInitRank");
  check_reductions(&checker, comm);
  check_own_operators(&checker, comm);
  check_movements(&checker, comm);
  const bool good = report(checker);
  checker.nccl(ncclCommDestroy(comm), "ncclCommDestroy");
  MPI_Finalize();
  return good ? 0 : 1;
}

// hostnccl's all-reduce beside Open MPI's in the same processes, in turns: fp32 sum, in place.
//
//   mpirun -n 2 bench_hostnccl --bytes 67108864 --rounds 21 --calls 1
//
// Each round times `calls` calls of one library, then as many of the other, the order changing from round to
// round; a round counts as long as its slowest rank took. Rank 0 prints one JSON object: medians and
// quartiles in microseconds, and the median of each round's ratio (above 1: hostnccl is faster). Buffers are
// huge-page advised and touched before anything is timed. Not a test: nothing here can fail a build.
#include <mpi.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"

namespace {

struct Options {
  std::size_t bytes = 64;
  int rounds = 31;
  int calls = 1000;
  std::string label = "default";
};

struct Libraries {
  ncclComm_t comm = nullptr;
  float* nccl = nullptr;
  float* mpi = nullptr;
  std::size_t count = 0;
};

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "bench_hostnccl: %s: %s\n", what, ncclGetLastError(nullptr));
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

float* pages(std::size_t bytes) {
  constexpr std::size_t kHuge = std::size_t{1} << 21;
  const std::size_t rounded = (bytes + kHuge - 1) / kHuge * kHuge;
  void* memory = std::aligned_alloc(kHuge, rounded);
  if (memory == nullptr) die("no memory");
  madvise(memory, rounded, MADV_HUGEPAGE);
  std::memset(memory, 0, rounded);
  return static_cast<float*>(memory);
}

void call_nccl(const Libraries& l) {
  if (ncclAllReduce(l.nccl, l.nccl, l.count, ncclFloat32, ncclSum, l.comm, nullptr) != ncclSuccess)
    die("ncclAllReduce");
}

void call_mpi(const Libraries& l) {
  MPI_Allreduce(MPI_IN_PLACE, l.mpi, static_cast<int>(l.count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

// Microseconds of one call, on the rank that took longest.
double time_calls(void (*call)(const Libraries&), const Libraries& libraries, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  call(libraries);  // wakes the ranks in the library's own way
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call(libraries);
  double took = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return took / calls;
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

void print_times(const char* name, const std::vector<double>& times) {
  std::printf("\"%s_us\": %.3f, \"%s_us_quartiles\": [%.3f, %.3f], ", name, quantile(times, 0.5), name,
              quantile(times, 0.25), quantile(times, 0.75));
}

void measure(const Options& options, const Libraries& libraries, int rank, int size) {
  std::vector<double> nccl;
  std::vector<double> mpi;
  std::vector<double> ratios;
  for (int round = -2; round < options.rounds; ++round) {  // two to warm up
    const bool first = round % 2 == 0;
    double ours = first ? time_calls(call_nccl, libraries, options.calls) : 0;
    const double theirs = time_calls(call_mpi, libraries, options.calls);
    if (!first) ours = time_calls(call_nccl, libraries, options.calls);
    if (round < 0) continue;
    nccl.push_back(ours);
    mpi.push_back(theirs);
    ratios.push_back(theirs / ours);
  }
  if (rank != 0) return;
  std::printf("{\"ranks\": %d, \"bytes\": %zu, \"open_mpi\": \"%s\", ", size, options.bytes,
              options.label.c_str());
  print_times("hostnccl", nccl);
  print_times("open_mpi", mpi);
  const double quickest_gbs = static_cast<double>(options.bytes) / quantile(nccl, 0.5) * 1e-3;
  std::printf("\"hostnccl_gb_per_second\": %.3f, \"times_as_fast\": %.3f, \"rounds\": %d, \"calls\": %d}\n",
              quickest_gbs, quantile(ratios, 0.5), options.rounds, options.calls);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--bytes") options.bytes = std::strtoull(value, nullptr, 10);
    if (name == "--rounds") options.rounds = std::atoi(value);
    if (name == "--calls") options.calls = std::atoi(value);
    if (name == "--label") options.label = value;
  }
  const bool whole = options.bytes != 0 && options.bytes % sizeof(float) == 0;
  if (!whole || options.rounds < 1 || options.calls < 1 || argc % 2 == 0) {
    std::fprintf(
        stderr,
        "usage: bench_hostnccl [--bytes N (a multiple of 4)] [--rounds N] [--calls N] [--label TEXT]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const Options options = parse(argc, argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ncclUniqueId id = {};
  if (rank == 0 && ncclGetUniqueId(&id) != ncclSuccess) die("ncclGetUniqueId");
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  Libraries libraries;
  libraries.count = options.bytes / sizeof(float);
  libraries.nccl = pages(options.bytes);
  libraries.mpi = pages(options.bytes);
  if (ncclCommInitRank(&libraries.comm, size, id, rank) != ncclSuccess) die("ncclCommInitRank");
  measure(options, libraries, rank, size);
  if (ncclCommDestroy(libraries.comm) != ncclSuccess) die("ncclCommDestroy");
  MPI_Finalize();
  std::free(libraries.nccl);
  std::free(libraries.mpi);
  return 0;
}

// What the conformance program shares: the rank's place, and the account of comparisons.
//
//   checker.nccl(ncclAllReduce(...), "ncclAllReduce");       // a failure ends the job
//   checker.same(got, want, "all-reduce int8 sum of 17");     // bytes
//
// One thread per process. The first few differences are printed.
#pragma once

#include <mpi.h>

#include <cstdio>
#include <map>
#include <string>

#include "tests/collectives/hostnccl/typed_buffer.h"

namespace stepgate::hostnccl::test {

class Checker {
 public:
  Checker(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const { return rank_; }
  int size() const { return size_; }
  std::size_t place() const { return static_cast<std::size_t>(rank_); }
  std::size_t ranks() const { return static_cast<std::size_t>(size_); }

  void nccl(ncclResult_t result, const char* call) const {
    if (result == ncclSuccess) return;
    std::fprintf(stderr, "rank %d: %s: %s: %s\n", rank_, call, ncclGetErrorString(result),
                 ncclGetLastError(nullptr));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  void note(bool same, const std::string& collective, const std::string& what) {
    ++compared_[collective];
    if (same) return;
    if (++differences_ <= kPrinted)
      std::fprintf(stderr, "rank %d: %s %s differs\n", rank_, collective.c_str(), what.c_str());
  }
  void same(const TypedBuffer& got, const TypedBuffer& want, const std::string& collective,
            const std::string& what) {
    note(got.bytes() == want.bytes(), collective, what);
  }

  const std::map<std::string, long>& compared() const { return compared_; }
  long differences() const { return differences_; }

 private:
  static constexpr long kPrinted = 5;
  const int rank_;
  const int size_;
  std::map<std::string, long> compared_;
  long differences_ = 0;
};

// In reductions.cc and movements.cc.
void check_reductions(Checker* checker, ncclComm_t comm);
void check_own_operators(Checker* checker, ncclComm_t comm);
void check_movements(Checker* checker, ncclComm_t comm);

// Around vector widths, and above the switch from doubling to the algorithms of long messages.
inline constexpr std::size_t kOddCounts[] = {1, 3, 17, 1021, 33 * 1024 + 5};

}  // namespace stepgate::hostnccl::test

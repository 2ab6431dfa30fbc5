// An NCCL on CUDA streams, as far as gates see one: an all-reduce is a copy out of the device, a host
// function that meets the other ranks, and a copy back; the call returns at once. It can be captured, and
// every replay meets again.
//
//   StreamNccl nccl(ranks, driver);
//   nccl.table(), nccl.services(), nccl.comm(rank)
//   nccl.all_reduce(rank, send, recv, count, ncclFloat32, stream);
//
// With `delay` a helper thread does the enqueueing later, as for a non-blocking communicator: the call
// returns ncclInProgress, and async_error() says so until then. Sums run in the order of the ranks.
// A rank that is missing for a minute fails the test; the others' sums are then zeros.
//
// Threads: a rank's calls from its own thread. Lock: one of its own, never held while a call runs.
// Ownership: pinned staging for all calls is made at construction; outlives every graph of them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "collectives/device/cuda/driver.h"
#include "collectives/device/device.h"
#include "plugin/core/core_entry.h"

namespace stepgate::test {

class StreamNccl {
 public:
  static constexpr std::size_t kMaxBytes = 16384;  // of one call
  static constexpr int kCallsPerRank = 256;        // recorded or run

  // A context of every device must be current somewhere while this lives; rank r works on device r.
  StreamNccl(int ranks, std::shared_ptr<device::cuda::Driver> driver);
  // Rank r works on devices[r].
  StreamNccl(const std::vector<int>& devices, std::shared_ptr<device::cuda::Driver> driver);
  ~StreamNccl();
  StreamNccl(const StreamNccl&) = delete;
  StreamNccl& operator=(const StreamNccl&) = delete;

  int ranks() const { return ranks_; }
  ncclComm_t comm(int rank);
  // Another communicator of the same ranks.
  ncclComm_t second_comm(int rank);
  static const ShimServices& services();

  // Every later call of the rank is launched by a helper thread after this; 0: at once.
  void set_delay(int rank, unsigned microseconds);
  // The rank's call number `call` (from 0, exchanges and gradients alike) returns an error and does nothing;
  // the others do not wait for it.
  void fail(int rank, int call);
  int calls(int rank) const;

  ncclResult_t all_reduce(int rank, const void* send, void* recv, std::size_t count, ncclDataType_t type,
                          device::Stream s);
  ncclResult_t async_error(int rank);

 private:
  struct Comm;
  struct Call;
  struct Meeting {
    std::map<int, std::vector<double>> sent;
  };
  static void run(void* call);
  void meet(Call& call);
  ncclResult_t enqueue(Call& call);
  int expected(int meeting) const;

  const int ranks_;
  std::shared_ptr<device::cuda::Driver> driver_;
  std::vector<std::unique_ptr<Comm>> comms_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, Meeting> meetings_;  // number of the call, and which run of it
  std::map<std::pair<int, int>, bool> failing_;
};

}  // namespace stepgate::test

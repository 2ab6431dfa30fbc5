// The gate's own calls into the job's NCCL: the exchange, and waiting for a non-blocking communicator.
//
// Thread: any; the caller holds no lock of ours, for these block as NCCL does. Hooks pass through
// meanwhile (ShimServices::enter_nccl). Ownership: comm and buffers are the caller's.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/device/device.h"
#include "plugin/core/core_entry.h"
#include "plugin/core/groups.h"

namespace stepgate::gate {

// Communicators that the gate's own calls must let go of: a retired one is freed by NCCL, and may be at any
// moment. The job orders its calls and its abort among themselves, ours it does not know of.
// Lock: one of its own, held around the one NCCL call that asks for a state; that call does not block.
class Polls {
 public:
  // longest_wait: an all-reduce is enqueued in microseconds, but one that blocks for other ranks may need the
  // abort to end, so retire waits for it no longer than this.
  explicit Polls(std::chrono::milliseconds longest_wait = std::chrono::milliseconds(100));
  // Returns when no poll of comm is in progress and none of our calls is inside of it, or has stayed there;
  // later ones end at once.
  void retire(ncclComm_t comm) noexcept;
  // Around a call that takes comm. False: it is retired, and must not be touched.
  bool enter(ncclComm_t comm);
  void leave(ncclComm_t comm) noexcept;
  // The pointer names a new communicator.
  void renew(ncclComm_t comm);
  bool retired(ncclComm_t comm);
  // What ncclCommGetAsyncError says, or ncclInternalError for a retired one.
  ncclResult_t ask(const ShimServices& services, const NcclTable& table, ncclComm_t comm);

 private:
  const std::chrono::milliseconds longest_wait_;
  std::mutex mutex_;
  std::condition_variable left_;
  std::vector<ncclComm_t> retired_;
  std::vector<ncclComm_t> inside_;  // once for each call
};

// One SUM all-reduce of `count` fp64. On a non-blocking communicator returns once a helper thread of
// NCCL has launched it, or ncclInProgress at the deadline.
ncclResult_t sum_fields(const ShimServices& services, const NcclTable& table, ncclComm_t comm,
                        const double* send, double* recv, std::size_t count, device::Stream s,
                        double limit_seconds, Polls& polls);

// The SUM of `count` fp64 over every group of the chain in turn. A group that fails, or has gone,
// gives this rank no sum; it goes on through the others with `nothing` (as many zeros), so that nobody waits
// there for it. False, with *why, where no sum over all came.
// given_up: asked before each group; once it says yes nothing more is issued, for a call that outlived its
// deadline or its agreement would meet the job's own collectives.
bool sum_over_chain(const ShimServices& services, const Chain& chain, const double* send, double* recv,
                    const double* nothing, std::size_t count, device::Stream s, double limit_seconds,
                    Polls& polls, const std::function<bool()>& given_up, std::string* why);

// Until the communicator's earlier calls are launched: ncclSuccess, its error, or ncclInProgress at the
// deadline. Waits for NCCL's helper thread, never for the device.
ncclResult_t wait_launched(const ShimServices& services, const NcclTable& table, ncclComm_t comm,
                           double limit_seconds, Polls& polls);

// "ncclAllReduce of the agreement returned 6 (...): ..."
std::string exchange_error(const NcclTable& table, ncclResult_t code, ncclComm_t comm);

}  // namespace stepgate::gate

#include "plugin/core/nccl_calls.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace stepgate::gate {
namespace {

using Clock = std::chrono::steady_clock;

class InsideNccl {
 public:
  explicit InsideNccl(const ShimServices& services) : services_(services) { services_.enter_nccl(); }
  ~InsideNccl() { services_.leave_nccl(); }
  InsideNccl(const InsideNccl&) = delete;
  InsideNccl& operator=(const InsideNccl&) = delete;

 private:
  const ShimServices& services_;
};

}  // namespace

ncclResult_t sum_fields(const ShimServices& services, const NcclTable& table, ncclComm_t comm,
                        const double* send, double* recv, std::size_t count, device::Stream s,
                        double limit_seconds, Polls& polls) {
  ncclResult_t code = ncclInternalError;
  if (!polls.enter(comm)) return code;
  {
    const InsideNccl guard(services);
    code = table.AllReduce(send, recv, count, ncclFloat64, ncclSum, comm, static_cast<cudaStream_t>(s));
  }
  polls.leave(comm);
  return code == ncclInProgress ? wait_launched(services, table, comm, limit_seconds, polls) : code;
}

bool sum_over_chain(const ShimServices& services, const Chain& chain, const double* send, double* recv,
                    const double* nothing, std::size_t count, device::Stream s, double limit_seconds,
                    Polls& polls, const std::function<bool()>& given_up, std::string* why) {
  const Chain::Link* failed = nullptr;
  bool gone = false;  // the failed one
  ncclResult_t first = ncclSuccess;
  for (std::size_t i = 0; i < chain.count; ++i) {
    const Chain::Link& link = chain.links[i];
    if (given_up()) {
      *why = "the exchange was given up: its deadline has passed, or its agreement has ended";
      return false;
    }
    const bool here = link.comm != nullptr && !polls.retired(link.comm);
    ncclResult_t code = ncclInternalError;
    if (here) {
      code = sum_fields(services, *link.table, link.comm, send, recv, count, s, limit_seconds, polls);
    }
    // A part of the sum is not to count for the whole. What lies elsewhere is this rank's own word, the
    // failure summary of one that has lost a group: those that it still reaches are to hear it.
    if (here || send == recv) send = code == ncclSuccess ? recv : nothing;
    if (code == ncclSuccess || failed != nullptr) continue;
    failed = &link;
    first = code;
    gone = !here;
  }
  if (chain.count == 0) {
    *why = "no group carries the exchange; add one with stepgate_add_group and activate again";
  } else if (failed != nullptr && (gone || polls.retired(failed->comm))) {
    *why = "a communicator of the agreement has gone; activate again with those that are there";
  } else if (failed != nullptr) {
    *why = exchange_error(*failed->table, first, failed->comm);
  }
  return chain.count != 0 && failed == nullptr;
}

Polls::Polls(std::chrono::milliseconds longest_wait) : longest_wait_(longest_wait) {
  inside_.reserve(kMaxGroups);
}

bool Polls::enter(ncclComm_t comm) {
  const std::lock_guard lock(mutex_);
  if (std::find(retired_.begin(), retired_.end(), comm) != retired_.end()) return false;
  inside_.push_back(comm);
  return true;
}

void Polls::leave(ncclComm_t comm) noexcept {
  const std::lock_guard lock(mutex_);
  inside_.erase(std::find(inside_.begin(), inside_.end(), comm));
  left_.notify_all();
}

void Polls::retire(ncclComm_t comm) noexcept {
  std::unique_lock lock(mutex_);
  try {
    if (std::find(retired_.begin(), retired_.end(), comm) == retired_.end()) retired_.push_back(comm);
  } catch (...) {
    // No memory to remember it by: a poll that is in progress ends with NCCL's own answer.
  }
  left_.wait_for(lock, longest_wait_,
                 [&] { return std::find(inside_.begin(), inside_.end(), comm) == inside_.end(); });
}

void Polls::renew(ncclComm_t comm) {
  const std::lock_guard lock(mutex_);
  std::erase(retired_, comm);
}

bool Polls::retired(ncclComm_t comm) {
  const std::lock_guard lock(mutex_);
  return std::find(retired_.begin(), retired_.end(), comm) != retired_.end();
}

ncclResult_t Polls::ask(const ShimServices& services, const NcclTable& table, ncclComm_t comm) {
  const std::lock_guard lock(mutex_);
  if (std::find(retired_.begin(), retired_.end(), comm) != retired_.end()) return ncclInternalError;
  const InsideNccl guard(services);
  ncclResult_t state = ncclInternalError;
  const ncclResult_t asked = table.CommGetAsyncError(comm, &state);
  return asked == ncclSuccess || asked == ncclInProgress ? state : asked;
}

ncclResult_t wait_launched(const ShimServices& services, const NcclTable& table, ncclComm_t comm,
                           double limit_seconds, Polls& polls) {
  if (table.CommGetAsyncError == nullptr) return ncclInternalError;
  const auto deadline = Clock::now() + std::chrono::duration<double>(limit_seconds);
  for (int round = 0;; ++round) {
    const ncclResult_t state = polls.ask(services, table, comm);
    if (state != ncclInProgress) return state;
    if (Clock::now() > deadline) return ncclInProgress;
    // A launch takes microseconds; what takes longer waits for another rank.
    if (round < 1000) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

std::string exchange_error(const NcclTable& table, ncclResult_t code, ncclComm_t comm) {
  if (code == ncclInProgress) return "ncclAllReduce of the agreement was not launched within the deadline";
  std::string text = "ncclAllReduce of the agreement returned " + std::to_string(static_cast<int>(code));
  if (table.GetErrorString != nullptr) text += std::string(" (") + table.GetErrorString(code) + ")";
  if (table.GetLastError != nullptr) {
    const char* more = table.GetLastError(comm);
    if (more != nullptr && *more != '\0') text += std::string(": ") + more;
  }
  return text;
}

}  // namespace stepgate::gate

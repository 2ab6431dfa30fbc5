#include "plugin/core/nccl_calls.h"

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
                        double limit_seconds) {
  ncclResult_t code = ncclInternalError;
  {
    const InsideNccl guard(services);
    code = table.AllReduce(send, recv, count, ncclFloat64, ncclSum, comm, static_cast<cudaStream_t>(s));
  }
  return code == ncclInProgress ? wait_launched(services, table, comm, limit_seconds) : code;
}

ncclResult_t wait_launched(const ShimServices& services, const NcclTable& table, ncclComm_t comm,
                           double limit_seconds) {
  if (table.CommGetAsyncError == nullptr) return ncclInternalError;
  const auto deadline = Clock::now() + std::chrono::duration<double>(limit_seconds);
  for (int round = 0;; ++round) {
    ncclResult_t state = ncclInternalError;
    ncclResult_t asked = ncclInternalError;
    {
      const InsideNccl guard(services);
      asked = table.CommGetAsyncError(comm, &state);
    }
    if (asked != ncclSuccess && asked != ncclInProgress) return asked;
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

// The gate's own calls into the job's NCCL: the exchange, and waiting for a non-blocking communicator.
//
// Thread: any; the caller holds no lock of ours, for these block as NCCL does. Hooks pass through
// meanwhile (ShimServices::enter_nccl). Ownership: comm and buffers are the caller's.
#pragma once

#include <string>

#include "collectives/device/device.h"
#include "plugin/core/core_entry.h"

namespace stepgate::gate {

// One SUM all-reduce of `count` fp64. On a non-blocking communicator returns once a helper thread of
// NCCL has launched it, or ncclInProgress at the deadline.
ncclResult_t sum_fields(const ShimServices& services, const NcclTable& table, ncclComm_t comm,
                        const double* send, double* recv, std::size_t count, device::Stream s,
                        double limit_seconds);

// Until the communicator's earlier calls are launched: ncclSuccess, its error, or ncclInProgress at the
// deadline. Waits for NCCL's helper thread, never for the device.
ncclResult_t wait_launched(const ShimServices& services, const NcclTable& table, ncclComm_t comm,
                           double limit_seconds);

// "ncclAllReduce of the agreement returned 6 (...): ..."
std::string exchange_error(const NcclTable& table, ncclResult_t code, ncclComm_t comm);

}  // namespace stepgate::gate

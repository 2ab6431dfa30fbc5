// An NCCL communicator with errors as exceptions.
//
// Thread: one per object. Order: collectives in one order on all ranks. Lock: none.
// Ownership: owns the communicator; after an error, and while an exception passes, it is aborted
// instead of destroyed.
#pragma once

#include <cstddef>

#include "collectives/nccl_abi/nccl_abi.h"

namespace stepgate::charlm {

class Communicator {
 public:
  // stream: what every collective is enqueued on; on host memory there is none, and each is done when its
  // function returns.
  Communicator(const ncclUniqueId& id, unsigned rank, unsigned world, cudaStream_t stream = nullptr);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  ncclComm_t handle() const { return comm_; }
  // In place of destroying: what the other ranks wait for ends, and so does what they kept this one waiting
  // for. Nothing but the destructor may follow.
  void abort();
  void group_start();
  void group_end();
  void all_reduce(void* data, std::size_t count, ncclDataType_t type, ncclRedOp_t op);
  void reduce_scatter(const void* send, void* receive, std::size_t receive_count, ncclDataType_t type,
                      ncclRedOp_t op);
  void all_gather(const void* send, void* receive, std::size_t send_count, ncclDataType_t type);

 private:
  void check(ncclResult_t result, const char* what);

  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_;
  bool broken_ = false;
};

ncclUniqueId new_unique_id();

}  // namespace stepgate::charlm

/* An NCCL so old that it has next to nothing, and the program that calls it in the same object, as where
 * NCCL is linked in statically. */
#include "collectives/nccl_abi/nccl_abi.h"

#define VISIBLE __attribute__((visibility("default")))

VISIBLE ncclResult_t pncclGetVersion(int* version);
VISIBLE ncclResult_t send_through_old_nccl(void);
VISIBLE ncclResult_t receive_through_old_nccl(void);

ncclResult_t pncclGetVersion(int* version) {
  *version = 20604;
  return ncclSuccess;
}

/* No tail call: the hook asks who called it. */
ncclResult_t send_through_old_nccl(void) {
  float value = 1;
  volatile ncclResult_t result = ncclSend(&value, 1, ncclFloat32, 0, NULL, NULL);
  return result;
}

ncclResult_t receive_through_old_nccl(void) {
  float value = 1;
  volatile ncclResult_t result = ncclRecv(&value, 1, ncclFloat32, 0, NULL, NULL);
  return result;
}

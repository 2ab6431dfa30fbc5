// The one exported function. It stands apart because the linker hides what comes from static archives.
#include "collectives/ucx/table.h"

extern "C" __attribute__((visibility("default"))) const sgt_table* stepgate_ucx_table(uint32_t abi_version) {
  return stepgate::transport::table(abi_version);
}

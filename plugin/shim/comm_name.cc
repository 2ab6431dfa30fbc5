#include "plugin/shim/comm_name.h"

#include <cstddef>

#include "collectives/nccl_abi/nccl_structs.h"
#include "plugin/shim/comm_registry.h"

namespace stepgate::shim {

// A program says by the size which members its own header knows; they only ever grow at the end.
const char* name_in(const ncclConfig_t* config) noexcept {
  constexpr std::size_t kEnd = offsetof(ncclConfig_t, commName) + sizeof config->commName;
  if (config == nullptr || config->magic != STEPGATE_NCCL_CONFIG_MAGIC || config->size < kEnd) return nullptr;
  return kept_name(config->commName);
}

const char* name_of_child(ncclComm_t parent, const ncclConfig_t* config) noexcept {
  return config != nullptr ? name_in(config) : find_comm(parent).name;
}

}  // namespace stepgate::shim

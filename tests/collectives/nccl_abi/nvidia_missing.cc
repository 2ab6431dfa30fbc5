#include "tests/collectives/nccl_abi/declarations.h"

std::vector<Declaration> nvidia_declarations() {
  return {};
}

int nvidia_version() {
  return 0;
}

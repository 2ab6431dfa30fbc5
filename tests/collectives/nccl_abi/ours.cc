#include <typeinfo>

#include "collectives/nccl_abi/nccl_abi.h"
#include "tests/collectives/nccl_abi/declarations.h"

std::vector<Declaration> our_declarations() {
#define DECLARATION(function) {#function, typeid(decltype(function)).name()},
  return {NCCL_FUNCTIONS_21800(DECLARATION) NCCL_FUNCTIONS_21900(DECLARATION)
              NCCL_FUNCTIONS_22200(DECLARATION) NCCL_FUNCTIONS_22300(DECLARATION)
                  NCCL_FUNCTIONS_22700(DECLARATION) NCCL_FUNCTIONS_22800(DECLARATION)
                      NCCL_FUNCTIONS_22809(DECLARATION)};
#undef DECLARATION
}

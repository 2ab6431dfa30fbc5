#include "plugin/shim/guard.h"

namespace stepgate::shim {
namespace {

thread_local int nccl_depth = 0;

}  // namespace

void enter_nccl() noexcept {
  ++nccl_depth;
}
void leave_nccl() noexcept {
  --nccl_depth;
}
bool inside_nccl() noexcept {
  return nccl_depth != 0;
}

GroupState& group_state() noexcept {
  thread_local GroupState state;
  return state;
}

}  // namespace stepgate::shim

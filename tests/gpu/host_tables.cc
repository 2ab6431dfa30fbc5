// HostDevice without Highway, for machines that have only a compiler: the scalar table is all there is.
#include "collectives/device/host/kernels.h"

namespace stepgate::device::host {

const Kernels& best_kernels() noexcept {
  return reference_kernels();
}

}  // namespace stepgate::device::host

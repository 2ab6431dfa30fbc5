#include "collectives/device/host/kernels.h"

namespace stepgate::device::host {

const Kernels& best_kernels() noexcept {
  return reference_kernels();
}

std::span<const Kernels* const> runnable_kernels() noexcept {
  static const Kernels* const kTables[] = {&reference_kernels()};
  return kTables;
}

}  // namespace stepgate::device::host

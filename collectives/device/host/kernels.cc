#include "collectives/device/host/kernels.h"

#include <hwy/targets.h>

#include <array>
#include <cstddef>

#include "collectives/device/host/simd_tables.h"

namespace stepgate::device::host {
namespace {

// What this machine can run, slowest first. Filled once; read only afterwards.
struct Runnable {
  Kernels vectors[2];
  std::array<const Kernels*, 3> tables = {};
  std::size_t count = 0;

  Runnable() noexcept {
    tables[count++] = &reference_kernels();
#if defined(__x86_64__)
    const auto supported = hwy::SupportedTargets();
    if ((supported & HWY_AVX2) != 0) add("avx2", set_look_avx2, set_detail_avx2, set_multiply_avx2);
    if ((supported & HWY_AVX3) != 0) add("avx512", set_look_avx3, set_detail_avx3, set_multiply_avx3);
#endif
  }

  using Fill = void (*)(Kernels&) noexcept;
  void add(const char* name, Fill look, Fill detail, Fill multiply) noexcept {
    Kernels& k = vectors[count - 1];
    k.name = name;
    look(k);
    detail(k);
    multiply(k);
    tables[count++] = &k;
  }
};

const Runnable& runnable() noexcept {
  static const Runnable kRunnable;
  return kRunnable;
}

}  // namespace

const Kernels& best_kernels() noexcept {
  return *runnable().tables[runnable().count - 1];
}

std::span<const Kernels* const> runnable_kernels() noexcept {
  return std::span<const Kernels* const>(runnable().tables.data(), runnable().count);
}

}  // namespace stepgate::device::host

// What stands for the kernels in a build without nvcc.
#include "collectives/device/cuda/kernels/fatbin.h"

namespace {
constexpr std::uint64_t kStubBytes = 64;
static_assert(sizeof stepgate::cuda::kStubText <= kStubBytes);
}  // namespace

extern "C" {
alignas(64) constexpr unsigned char stepgate_fatbin[kStubBytes] = "STEPGATE: built without nvcc";
const std::uint64_t stepgate_fatbin_size = kStubBytes;
const std::uint64_t stepgate_have_fatbin = 0;
}

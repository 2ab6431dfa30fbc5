// The kernels of this build as the driver loads them (cuModuleLoadData). A build that found no nvcc has
// a stub in their place, which only the tests' stand-in driver takes; CudaDevice::create says so.
//
// Thread: any; constant data, hidden in the shared object that links stepgate::fatbin.
#pragma once

#include <cstdint>

extern "C" {
__attribute__((visibility("hidden"))) extern const unsigned char stepgate_fatbin[];
__attribute__((visibility("hidden"))) extern const std::uint64_t stepgate_fatbin_size;
__attribute__((visibility("hidden"))) extern const std::uint64_t stepgate_have_fatbin;  // 0: the stub
}

namespace stepgate::cuda {

// How the stub begins.
inline constexpr char kStubText[] = "STEPGATE: built without nvcc";

}  // namespace stepgate::cuda

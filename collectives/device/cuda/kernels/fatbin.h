// The kernels of this build as the driver loads them (cuModuleLoadData). Only in builds that found
// nvcc: STEPGATE_HAVE_FATBIN is defined where the two can be linked.
//
// Thread: any; constant data, hidden in the shared object that links it.
#pragma once

#include <cstdint>

extern "C" {
__attribute__((visibility("hidden"))) extern const unsigned char stepgate_fatbin[];
__attribute__((visibility("hidden"))) extern const std::uint64_t stepgate_fatbin_size;
}

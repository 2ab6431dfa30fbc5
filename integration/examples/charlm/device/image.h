// charlm's kernels as the driver loads them (cuModuleLoadData): a fatbin where nvcc was found at build time,
// else a few bytes that no driver takes, only the stand-in.
//
// Thread: any; constant data.
#pragma once

extern "C" {
__attribute__((visibility("hidden"))) extern const unsigned char charlm_device_image[];
}

namespace stepgate::charlm {

// False: built without nvcc.
bool has_device_code() noexcept;

}  // namespace stepgate::charlm

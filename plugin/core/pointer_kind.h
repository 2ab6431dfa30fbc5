// Whether the host may read a pointer. A job on GPUs hands device memory to the plugin; reading it
// from the host would end the job, so it is asked for before any scan is planned.
//
// Thread: any. Asks the CUDA driver only where the job has loaded one already; never loads it.
#pragma once

namespace stepgate::gate {

// True for memory that only a device can read, by the word of the driver in this process.
bool is_device_only(const void* pointer) noexcept;

}  // namespace stepgate::gate

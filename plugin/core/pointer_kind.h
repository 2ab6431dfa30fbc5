// Whether the host may read a pointer. A job on GPUs hands device memory to the plugin; reading it
// from the host would end the job, so it is asked for before any scan is planned.
//
// Thread: any. Asks the CUDA driver only where the job has loaded one already; never loads it.
#pragma once

namespace stepgate::gate {

enum class PointerKind {
  kOrdinary,  // no driver knows it, or there is none
  kShared,    // host and devices read it: pinned, registered, managed
  kDevice     // a device alone reads it, or the driver does not say
};

// By the word of the driver in this process.
PointerKind pointer_kind(const void* pointer) noexcept;

inline bool is_device_only(const void* pointer) noexcept {
  return pointer_kind(pointer) == PointerKind::kDevice;
}

}  // namespace stepgate::gate

// JobFloats: while it lives, the calling thread computes as every rank's plugin does (to nearest,
// nothing flushed, nothing trapped); afterwards MXCSR is the job's again, sticky flags included. A job
// that rounds upwards or traps on division must not meet that inside of the plugin, nor find flags that
// its own arithmetic did not raise.
//
// Thread: the one that created it; scopes nest. The work stands behind calls into another shared object,
// so the compiler cannot move arithmetic across.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace stepgate::shim {

class JobFloats {
 public:
  JobFloats(const JobFloats&) = delete;
  JobFloats& operator=(const JobFloats&) = delete;
#if defined(__x86_64__)
  JobFloats() noexcept : jobs_(_mm_getcsr()) {
    _mm_setcsr(kAllMaskedNearest);
  }
  ~JobFloats() {
    _mm_setcsr(jobs_);
  }

 private:
  static constexpr unsigned kAllMaskedNearest = 0x1f80;
  unsigned jobs_;
#else
  JobFloats() noexcept {}
#endif
};

}  // namespace stepgate::shim

// DefaultFpEnvironment: while it lives, the calling thread rounds to nearest, flushes nothing and
// traps nothing; afterwards everything is as it was, sticky flags included. Jobs set flush-to-zero
// for speed, and the bits of a scan may not depend on that.
//
// Thread: the one that created it; scopes nest. The work itself must be behind a call that the
// compiler cannot see through, since it knows nothing of the order between MXCSR and arithmetic.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace stepgate::device::host {

class DefaultFpEnvironment {
 public:
  DefaultFpEnvironment(const DefaultFpEnvironment&) = delete;
  DefaultFpEnvironment& operator=(const DefaultFpEnvironment&) = delete;

#if defined(__x86_64__)
  DefaultFpEnvironment() noexcept : saved_(_mm_getcsr()) {
    _mm_setcsr(kAllMaskedNearest);
  }
  ~DefaultFpEnvironment() {
    _mm_setcsr(saved_);
  }

 private:
  static constexpr unsigned kAllMaskedNearest = 0x1f80;
  unsigned saved_;
#else
  DefaultFpEnvironment() noexcept {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFpEnvironment() {
    std::fesetenv(&saved_);
  }

 private:
  std::fenv_t saved_;
#endif
};

}  // namespace stepgate::device::host

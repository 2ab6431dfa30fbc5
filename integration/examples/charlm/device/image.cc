#include "integration/examples/charlm/device/image.h"

#if !defined(CHARLM_HAVE_FATBIN)
// Nothing that a driver would take for code.
extern "C" const unsigned char charlm_device_image[64] = "charlm was built without nvcc";
#endif

namespace stepgate::charlm {

bool has_device_code() noexcept {
#if defined(CHARLM_HAVE_FATBIN)
  return true;
#else
  return false;
#endif
}

}  // namespace stepgate::charlm

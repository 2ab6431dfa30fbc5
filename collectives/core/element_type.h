// Element types of gradients and the thresholds that their bits imply. Host and device.
//
// Thread: any. Pure functions, no state.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/core/host_device.h"

namespace stepgate {

// The stored type of a buffer, or the compute type whose range it is judged against.
// Values are part of records and state blobs: never renumber.
enum class ElementType : std::uint32_t {
  kFp32 = 0,
  kFp16 = 1,
  kBf16 = 2,
  kFp64 = 3,
  kFp8E4M3 = 4,  // OCP e4m3fn: no inf, NaN is 0x7f and 0xff
  kFp8E5M2 = 5,
};
inline constexpr std::uint32_t kElementTypeCount = 6;

// Bytes of one element.
STEPGATE_HD constexpr std::size_t element_size(ElementType t) {
  switch (t) {
    case ElementType::kFp64: return 8;
    case ElementType::kFp32: return 4;
    case ElementType::kFp16:
    case ElementType::kBf16: return 2;
    case ElementType::kFp8E4M3:
    case ElementType::kFp8E5M2: return 1;
  }
  return 0;
}

// Smallest positive normal value; 0 < |x| < this is a subnormal of the type.
STEPGATE_HD constexpr double smallest_normal(ElementType t) {
  switch (t) {
    case ElementType::kFp64: return 0x1p-1022;
    case ElementType::kFp32:
    case ElementType::kBf16: return 0x1p-126;
    case ElementType::kFp16:
    case ElementType::kFp8E5M2: return 0x1p-14;
    case ElementType::kFp8E4M3: return 0x1p-6;
  }
  return 0;
}

// Largest finite value; a finite |x| above it is an overrange of the type.
STEPGATE_HD constexpr double largest_finite(ElementType t) {
  switch (t) {
    case ElementType::kFp64: return 0x1.fffffffffffffp+1023;
    case ElementType::kFp32: return 0x1.fffffep+127;
    case ElementType::kBf16: return 0x1.fep+127;
    case ElementType::kFp16: return 65504.0;
    case ElementType::kFp8E5M2: return 57344.0;
    case ElementType::kFp8E4M3: return 448.0;
  }
  return 0;
}

// "fp32", "fp16", ...; "unknown" for a value outside the enumeration.
const char* element_type_name(ElementType t) noexcept;

}  // namespace stepgate

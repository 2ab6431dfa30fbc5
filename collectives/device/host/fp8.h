// fp8 by way of fp16: a magnitude moved into the place of an fp16 magnitude, and what an fp16 loop says of
// it.
//
// e5m2 is the upper byte of an fp16. e4m3, seven bits up, reads as 2^-8 of its value: sums of squares are
// made good by 2^16 in the end, which changes no bit of them, for neither end of fp32's range is near. e4m3
// has no inf, and its one NaN becomes an fp16 NaN where a loop tells NaN apart.
//
// Thread: any; pure functions over a stack buffer of one unit.
#pragma once

#include <cstdint>

#include "collectives/core/grad_stats.h"
#include "collectives/device/host/kernels.h"

namespace stepgate::device::host {

inline constexpr int kE4M3Shift = 7;
inline constexpr int kE5M2Shift = 8;
inline constexpr std::uint64_t kFp16Infinity = 0x7c00;
inline constexpr std::uint16_t kFp16Nan = 0x7e00;
inline constexpr std::uint8_t kE4M3Nan = 0x7f;

template <int kShift>
inline constexpr double kFp8SquareScale = kShift == kE4M3Shift ? 65536 : 1;

// The magnitudes of a unit as fp16 words.
struct WidenedUnit {
  std::uint16_t words[kUnitElements];
  const unsigned char* bytes() const { return reinterpret_cast<const unsigned char*>(words); }
};

template <int kShift>
void widen_fp8(const unsigned char* unit, std::uint32_t count, WidenedUnit& to) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) {
    to.words[i] = static_cast<std::uint16_t>((unit[i] & 0x7fu) << kShift);
  }
}

// The look of a table's fp16 loop, at fp8.
template <LookFn kHalf, int kShift>
UnitLook look_fp8(const unsigned char* unit, std::uint32_t count, std::uint64_t normal_from) noexcept {
  WidenedUnit wide;
  widen_fp8<kShift>(unit, count, wide);
  UnitLook seen = kHalf(wide.bytes(), count, normal_from << kShift);
  seen.maximum >>= kShift;
  seen.squares *= kFp8SquareScale<kShift>;
  return seen;
}

template <DetailFn kHalf, int kShift>
UnitDetail detail_fp8(const unsigned char* unit, std::uint32_t count, const Thresholds& limits) noexcept {
  WidenedUnit wide;
  widen_fp8<kShift>(unit, count, wide);
  Thresholds half;
  half.infinity = kFp16Infinity;
  half.over_from = limits.over_from == limits.infinity ? kFp16Infinity : limits.over_from << kShift;
  if (kShift == kE4M3Shift) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if ((unit[i] & 0x7fu) == kE4M3Nan) wide.words[i] = kFp16Nan;
    }
  }
  UnitDetail seen = kHalf(wide.bytes(), count, half);
  seen.maximum >>= kShift;
  seen.squares *= kFp8SquareScale<kShift>;
  return seen;
}

}  // namespace stepgate::device::host

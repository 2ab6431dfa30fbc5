// The bits of the element types that a host computes with: masks, and exact widening.
//
//   Format<ElementType::kFp16>::to_float(0x3c00) == 1.0f
//
// Thread: any; pure constexpr functions, no state. A "magnitude" is an element's bits without the
// sign; magnitudes of one type order like the values they stand for, with inf and NaN on top.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "collectives/core/element_type.h"

namespace stepgate::device::host {

constexpr float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 31u;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    // Times a power of two: exact, and the sign of a zero survives.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 31 ? 255u : exponent + 112u;
  // A signalling NaN becomes quiet, as the hardware's own conversion does it.
  const std::uint32_t quiet = exponent == 31 && mantissa != 0 ? 0x400000u : 0u;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13) | quiet);
}

// Nearest, ties to even; NaN stays NaN (quiet, upper payload kept).
constexpr std::uint16_t float_to_half(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to 65536
  if (magnitude < 0x38800000u) {
    // Subnormal half: adding 0.5 leaves the rounded multiple of 2^-24 in the low mantissa bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

constexpr float bfloat_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Nearest, ties to even; NaN stays NaN.
constexpr std::uint16_t float_to_bfloat(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

template <ElementType T>
struct Format;

template <>
struct Format<ElementType::kFp32> {
  using Bits = std::uint32_t;
  using Arithmetic = float;  // what `apply` multiplies in
  static constexpr Bits kInfinity = 0x7f800000u;
  static constexpr Arithmetic widen(Bits b) { return std::bit_cast<float>(b); }
  static constexpr Bits narrow(Arithmetic x) { return std::bit_cast<Bits>(x); }
};

template <>
struct Format<ElementType::kFp16> {
  using Bits = std::uint16_t;
  using Arithmetic = float;
  static constexpr Bits kInfinity = 0x7c00u;
  static constexpr Arithmetic widen(Bits b) { return half_to_float(b); }
  static constexpr Bits narrow(Arithmetic x) { return float_to_half(x); }
};

template <>
struct Format<ElementType::kBf16> {
  using Bits = std::uint16_t;
  using Arithmetic = float;
  static constexpr Bits kInfinity = 0x7f80u;
  static constexpr Arithmetic widen(Bits b) { return bfloat_to_float(b); }
  static constexpr Bits narrow(Arithmetic x) { return float_to_bfloat(x); }
};

template <>
struct Format<ElementType::kFp64> {
  using Bits = std::uint64_t;
  using Arithmetic = double;
  static constexpr Bits kInfinity = 0x7ff0000000000000u;
  static constexpr Arithmetic widen(Bits b) { return std::bit_cast<double>(b); }
  static constexpr Bits narrow(Arithmetic x) { return std::bit_cast<Bits>(x); }
};

// fp8 is only read. e4m3 has no inf: its NaN is where another type's inf is.
template <>
struct Format<ElementType::kFp8E4M3> {
  using Bits = std::uint8_t;
  using Arithmetic = float;
  static constexpr Bits kInfinity = 0x7fu;
  static constexpr Arithmetic widen(Bits b) {
    return half_to_float(static_cast<std::uint16_t>((b & 0x80u) << 8 | (b & 0x7fu) << 7)) * 256;
  }
};

template <>
struct Format<ElementType::kFp8E5M2> {
  using Bits = std::uint8_t;
  using Arithmetic = float;
  static constexpr Bits kInfinity = 0x7cu;
  static constexpr Arithmetic widen(Bits b) { return half_to_float(static_cast<std::uint16_t>(b << 8)); }
};

template <ElementType T>
inline constexpr typename Format<T>::Bits kMagnitudeMask = static_cast<typename Format<T>::Bits>(
    static_cast<typename Format<T>::Bits>(~typename Format<T>::Bits{0}) >> 1);

// Element i of a buffer of any alignment.
template <ElementType T>
typename Format<T>::Bits load_bits(const unsigned char* data, std::uint64_t i) {
  typename Format<T>::Bits bits;
  std::memcpy(&bits, data + i * sizeof bits, sizeof bits);
  return bits;
}

}  // namespace stepgate::device::host

// The stored types as a scan sees them: how a lane's vector is counted and squared, and what one
// element of it is worth.
//
// A row is 256 elements, one per column. It is kVectorsPerRow vectors of every lane; a lane always has
// eight columns: vector q, element j is column (q * 32 + lane) * kPerVector + j.
//
//   Peak       what the hot loop keeps of the magnitudes; magnitude_of_peak() reads it
//   Counts     nonzero and normal elements so far, times kCountSign
//   add()      one vector: no branch, no comparison of values, eight columns at most
//   load()     one vector from memory
//
// Thread: one lane each; the functions hold no state. Device code.
#pragma once

#include <cstdint>

#include "collectives/core/element_type.h"
#include "collectives/device/cuda/kernels/arguments.h"
#include "collectives/device/cuda/kernels/intrinsics.h"

namespace stepgate::cuda {

// How a read-only scan reads.
struct ReadOnce {
  static constexpr bool kInPlace = false;
  template <class Vector>
  static STEPGATE_DEVICE Vector load(const Vector* p) {
    return load_once(p);
  }
};

struct Counts {
  std::int32_t nonzero = 0;
  std::int32_t normal = 0;
};

// Two 16-bit lanes in a word. The adders raise the top bit of a lane exactly when its magnitude
// reaches their threshold; no carry can cross.
template <class Widen>
struct HalfFormat : ReadOnce {
  using Element = std::uint16_t;
  using Vector = Words4;
  using Column = float;
  using Magnitude = std::uint32_t;
  using Peak = std::uint32_t;
  static constexpr std::uint32_t kPerVector = 8;
  static constexpr std::uint32_t kVectorsPerRow = 1;
  static constexpr std::int32_t kCountSign = -1;
  static constexpr double kSquareScale = 1;

  static STEPGATE_DEVICE std::uint32_t normal_adder(const ScanLimits& l) {
    return static_cast<std::uint32_t>(0x8000u - l.normal_from) * 0x10001u;
  }
  static STEPGATE_DEVICE void add(const Vector& v, std::uint32_t adder, Peak& peak, Counts& counts,
                                  float* c) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const std::uint32_t a = v.w[i] & 0x7fff7fffu;
      const std::uint32_t b = v.w[i + 1] & 0x7fff7fffu;
      peak = larger_halves(larger_halves(peak, a), b);
      counts.nonzero = subtract_signs16(a + 0x7fff7fffu, b + 0x7fff7fffu, counts.nonzero);
      counts.normal = subtract_signs16(a + adder, b + adder, counts.normal);
      square(v.w[i], c + 2 * i);
      square(v.w[i + 1], c + 2 * i + 2);
    }
  }
  static STEPGATE_DEVICE Magnitude magnitude_of_peak(Peak peak) {
    return larger(peak & 0xffffu, peak >> 16);
  }
  static STEPGATE_DEVICE Magnitude magnitude(const Vector& v, int j) {
    return (v.w[j / 2] >> (16 * (j % 2))) & 0x7fffu;
  }
  static STEPGATE_DEVICE double value(Magnitude m) {
    return Widen::low(m);
  }

 private:
  static STEPGATE_DEVICE void square(std::uint32_t w, float* c) {
    const float low = Widen::low(w);
    const float high = Widen::high(w);
    c[0] = multiply_add(low, low, c[0]);
    c[1] = multiply_add(high, high, c[1]);
  }
};

struct WidenHalf {
  static STEPGATE_DEVICE float low(std::uint32_t w) { return float_from_low_half(w); }
  static STEPGATE_DEVICE float high(std::uint32_t w) { return float_from_high_half(w); }
};
struct WidenBfloat {
  static STEPGATE_DEVICE float low(std::uint32_t w) { return float_from_bits(w << 16); }
  static STEPGATE_DEVICE float high(std::uint32_t w) { return float_from_bits(w & 0xffff0000u); }
};
using Fp16Format = HalfFormat<WidenHalf>;
using Bf16Format = HalfFormat<WidenBfloat>;

struct Fp32Format : ReadOnce {
  using Element = std::uint32_t;
  using Vector = Words4;
  using Column = float;
  using Magnitude = std::uint32_t;
  using Peak = std::uint32_t;
  static constexpr std::uint32_t kPerVector = 4;
  static constexpr std::uint32_t kVectorsPerRow = 2;
  static constexpr std::int32_t kCountSign = 1;
  static constexpr double kSquareScale = 1;

  static STEPGATE_DEVICE std::uint32_t normal_adder(const ScanLimits& l) {
    return static_cast<std::uint32_t>(0x80000000u - l.normal_from);
  }
  static STEPGATE_DEVICE void add(const Vector& v, std::uint32_t adder, Peak& peak, Counts& counts,
                                  float* c) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t a = v.w[j] & 0x7fffffffu;
      peak = larger(peak, a);
      counts.nonzero = add_nonzero(a, counts.nonzero);
      counts.normal += static_cast<std::int32_t>((a + adder) >> 31);
      const float x = float_from_bits(v.w[j]);
      c[j] = multiply_add(x, x, c[j]);
    }
  }
  static STEPGATE_DEVICE Magnitude magnitude_of_peak(Peak peak) {
    return peak;
  }
  static STEPGATE_DEVICE Magnitude magnitude(const Vector& v, int j) {
    return v.w[j] & 0x7fffffffu;
  }
  static STEPGATE_DEVICE double value(Magnitude m) {
    return float_from_bits(m);
  }
};

struct Fp64Format : ReadOnce {
  using Element = std::uint64_t;
  using Vector = Words4;
  using Column = double;
  using Magnitude = std::uint64_t;
  using Peak = std::uint64_t;
  static constexpr std::uint32_t kPerVector = 2;
  static constexpr std::uint32_t kVectorsPerRow = 4;
  static constexpr std::int32_t kCountSign = 1;
  static constexpr double kSquareScale = 1;

  static STEPGATE_DEVICE std::uint64_t normal_adder(const ScanLimits& l) {
    return (std::uint64_t{1} << 63) - l.normal_from;
  }
  static STEPGATE_DEVICE void add(const Vector& v, std::uint64_t adder, Peak& peak, Counts& counts,
                                  double* c) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const std::uint64_t a = magnitude(v, j);
      peak = larger(peak, a);
      counts.nonzero += a != 0;
      counts.normal += static_cast<std::int32_t>((a + adder) >> 63);
      const double x = double_from_bits(a);
      c[j] = multiply_add(x, x, c[j]);
    }
  }
  static STEPGATE_DEVICE Magnitude magnitude_of_peak(Peak peak) {
    return peak;
  }
  static STEPGATE_DEVICE Magnitude magnitude(const Vector& v, int j) {
    return (static_cast<std::uint64_t>(v.w[2 * j + 1] & 0x7fffffffu) << 32) | v.w[2 * j];
  }
  static STEPGATE_DEVICE double value(Magnitude m) {
    return double_from_bits(m);
  }
};

// Four 8-bit lanes in a word. kShift moves a magnitude into the place of an fp16 magnitude; e4m3 then
// reads 2^-8 of its value, which the squares make good in the end, exactly.
template <int kShift>
struct Fp8Format : ReadOnce {
  using Element = std::uint8_t;
  using Vector = Words2;
  using Column = float;
  using Magnitude = std::uint32_t;
  using Peak = std::uint32_t;
  static constexpr std::uint32_t kPerVector = 8;
  static constexpr std::uint32_t kVectorsPerRow = 1;
  static constexpr std::int32_t kCountSign = -1;
  static constexpr double kValueScale = kShift == 7 ? 256 : 1;
  static constexpr double kSquareScale = kValueScale * kValueScale;
  static constexpr std::uint32_t kHalfMask = 0x7fu << kShift | 0x7fu << (kShift + 16);

  static STEPGATE_DEVICE std::uint32_t normal_adder(const ScanLimits& l) {
    return static_cast<std::uint32_t>(0x80u - l.normal_from) * 0x01010101u;
  }
  static STEPGATE_DEVICE void add(const Vector& v, std::uint32_t adder, Peak& peak, Counts& counts,
                                  float* c) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t a = v.w[i] & 0x7f7f7f7fu;
      const std::uint32_t even = (v.w[i] << kShift) & kHalfMask;
      const std::uint32_t odd = (v.w[i] >> (8 - kShift)) & kHalfMask;
      peak = larger_halves(larger_halves(peak, even), odd);
      counts.nonzero = subtract_signs8(a + 0x7f7f7f7fu, counts.nonzero);
      counts.normal = subtract_signs8(a + adder, counts.normal);
      square(float_from_low_half(even), c[4 * i]);
      square(float_from_low_half(odd), c[4 * i + 1]);
      square(float_from_high_half(even), c[4 * i + 2]);
      square(float_from_high_half(odd), c[4 * i + 3]);
    }
  }
  static STEPGATE_DEVICE Magnitude magnitude_of_peak(Peak peak) {
    return larger(peak & 0xffffu, peak >> 16) >> kShift;
  }
  static STEPGATE_DEVICE Magnitude magnitude(const Vector& v, int j) {
    return (v.w[j / 4] >> (8 * (j % 4))) & 0x7fu;
  }
  static STEPGATE_DEVICE double value(Magnitude m) {
    return float_from_low_half(m << kShift) * kValueScale;
  }

 private:
  static STEPGATE_DEVICE void square(float x, float& c) {
    c = multiply_add(x, x, c);
  }
};
using Fp8E4M3Format = Fp8Format<7>;
using Fp8E5M2Format = Fp8Format<8>;

}  // namespace stepgate::cuda

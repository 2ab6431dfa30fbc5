// The few machine instructions that the kernels need by name: inline PTX on the device, and beside
// each the plain C++ that means the same, so that one source compiles for a GPU and for the CPU.
//
// Without nvcc the includer provides CUDA's own words first (threadIdx, __shfl_sync, __threadfence, ...).
//
// Thread: device code; pure functions but for the loads and stores. Both sides give the same bits,
// NaN payloads apart.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#define STEPGATE_DEVICE __device__ __forceinline__

#if defined(__CUDA_ARCH__)
#define STEPGATE_PTX(minimum) (__CUDA_ARCH__ >= (minimum))
#else
#define STEPGATE_PTX(minimum) 0
#endif

namespace stepgate::cuda {

struct alignas(16) Words4 {
  std::uint32_t w[4];
};
struct alignas(8) Words2 {
  std::uint32_t w[2];
};

// Read once, by one thread, and not written while the kernel runs: past the first-level cache.
STEPGATE_DEVICE Words4 load_once(const Words4* p) {
#if STEPGATE_PTX(700)
  Words4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
               : "l"(p));
  return v;
#else
  return *p;
#endif
}
STEPGATE_DEVICE Words2 load_once(const Words2* p) {
#if STEPGATE_PTX(700)
  Words2 v;
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];" : "=r"(v.w[0]), "=r"(v.w[1]) : "l"(p));
  return v;
#else
  return *p;
#endif
}

// Read by a kernel that will write there.
STEPGATE_DEVICE Words4 load_again(const Words4* p) {
#if STEPGATE_PTX(1)
  Words4 v;
  asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
               : "l"(p));
  return v;
#else
  return *p;
#endif
}

STEPGATE_DEVICE std::uint32_t larger(std::uint32_t a, std::uint32_t b) {
  return a > b ? a : b;
}
STEPGATE_DEVICE std::uint64_t larger(std::uint64_t a, std::uint64_t b) {
  return a > b ? a : b;
}

// The larger of each half; halves below 0x8000. From 0x7f81 on a half may come out as 0x7fff.
STEPGATE_DEVICE std::uint32_t larger_halves(std::uint32_t a, std::uint32_t b) {
#if STEPGATE_PTX(800)
  // Magnitudes of any 16-bit float order like those of bf16, and this maximum keeps NaN.
  std::uint32_t r;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
#else
  return larger(a & 0xffff0000u, b & 0xffff0000u) | larger(a & 0xffffu, b & 0xffffu);
#endif
}

// Minus the number of bytes of `a` whose top bit is set, plus `sum`.
STEPGATE_DEVICE std::int32_t subtract_signs8(std::uint32_t a, std::int32_t sum) {
#if STEPGATE_PTX(700)
  std::uint32_t spread;
  asm("prmt.b32 %0, %1, 0, 0xba98;" : "=r"(spread) : "r"(a));
  return __dp4a(static_cast<int>(spread), 0x01010101, sum);
#else
  return sum - std::popcount(a & 0x80808080u);
#endif
}

// The same for the four halves of two words.
STEPGATE_DEVICE std::int32_t subtract_signs16(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
#if STEPGATE_PTX(700)
  std::uint32_t spread;
  asm("prmt.b32 %0, %1, %2, 0xfdb9;" : "=r"(spread) : "r"(a), "r"(b));
  return __dp4a(static_cast<int>(spread), 0x01010101, sum);
#else
  return sum - std::popcount((a & 0x80008000u) | ((b & 0x80008000u) >> 1));
#endif
}

// One more where `a` is not zero. Left to itself the compiler takes a second instruction for it.
STEPGATE_DEVICE std::int32_t add_nonzero(std::uint32_t a, std::int32_t sum) {
#if STEPGATE_PTX(700)
  asm("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p add.s32 %0, %0, 1; }" : "+r"(sum) : "r"(a));
  return sum;
#else
  return sum + (a != 0);
#endif
}

STEPGATE_DEVICE float multiply_add(float a, float b, float c) {
#if STEPGATE_PTX(1)
  return __fmaf_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}
STEPGATE_DEVICE double multiply_add(double a, double b, double c) {
#if STEPGATE_PTX(1)
  return __fma_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}

STEPGATE_DEVICE float float_from_bits(std::uint32_t bits) {
#if STEPGATE_PTX(1)
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}
STEPGATE_DEVICE std::uint32_t bits_of_float(float x) {
#if STEPGATE_PTX(1)
  return __float_as_uint(x);
#else
  return std::bit_cast<std::uint32_t>(x);
#endif
}
STEPGATE_DEVICE double double_from_bits(std::uint64_t bits) {
#if STEPGATE_PTX(1)
  return __longlong_as_double(static_cast<long long>(bits));
#else
  return std::bit_cast<double>(bits);
#endif
}
STEPGATE_DEVICE std::uint64_t bits_of_double(double x) {
#if STEPGATE_PTX(1)
  return static_cast<std::uint64_t>(__double_as_longlong(x));
#else
  return std::bit_cast<std::uint64_t>(x);
#endif
}

// fp16 in the low or the high half of a word; exact.
STEPGATE_DEVICE float float_from_low_half(std::uint32_t w) {
#if STEPGATE_PTX(1)
  float x;
  asm("{ .reg .f16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(x) : "r"(w));
  return x;
#else
  const std::uint32_t sign = (w & 0x8000u) << 16;
  const std::uint32_t magnitude = w & 0x7fffu;
  if (magnitude < 0x400u) {
    return float_from_bits(bits_of_float(static_cast<float>(magnitude) * 0x1p-24f) | sign);
  }
  const std::uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
  const std::uint32_t rebias = magnitude >= 0x7c00u ? 0x70000000u : 0x38000000u;
  return float_from_bits(sign | ((magnitude << 13) + rebias) | quiet);
#endif
}
STEPGATE_DEVICE float float_from_high_half(std::uint32_t w) {
#if STEPGATE_PTX(1)
  float x;
  asm("{ .reg .f16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(x) : "r"(w));
  return x;
#else
  return float_from_low_half(w >> 16);
#endif
}

// Nearest, ties to even.
STEPGATE_DEVICE std::uint32_t half_from_float(float x) {
#if STEPGATE_PTX(1)
  std::uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
#else
  const std::uint32_t bits = bits_of_float(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
  if (magnitude < 0x38800000u) {
    // 0.5 has the weight of a half's last subnormal bit in its own last bit: the sum rounds there.
    return sign | (bits_of_float(float_from_bits(magnitude) + 0.5f) - 0x3f000000u);
  }
  return sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13);
#endif
}

STEPGATE_DEVICE std::uint32_t bfloat_from_float(float x) {
#if STEPGATE_PTX(800)
  std::uint16_t b;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b) : "f"(x));
  return b;
#else
  const std::uint32_t bits = bits_of_float(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
#endif
}

// Two at once, the first into the low half.
STEPGATE_DEVICE std::uint32_t halves_from_floats(float low, float high) {
#if STEPGATE_PTX(800)
  std::uint32_t w;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
  return w;
#else
  return half_from_float(low) | half_from_float(high) << 16;
#endif
}
STEPGATE_DEVICE std::uint32_t bfloats_from_floats(float low, float high) {
#if STEPGATE_PTX(800)
  std::uint32_t w;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
  return w;
#else
  return bfloat_from_float(low) | bfloat_from_float(high) << 16;
#endif
}

// Stores to memory that the host reads meanwhile. The plain one is ordered by the fences around it.
STEPGATE_DEVICE void store_word_system(std::uint64_t* p, std::uint64_t value) {
#if STEPGATE_PTX(700)
  asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(p), "l"(value) : "memory");
#else
  __atomic_store_n(p, value, __ATOMIC_RELEASE);
#endif
}
STEPGATE_DEVICE void store_release_system(std::uint64_t* p, std::uint64_t value) {
#if STEPGATE_PTX(700)
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(p), "l"(value) : "memory");
#else
  __atomic_store_n(p, value, __ATOMIC_RELEASE);
#endif
}

}  // namespace stepgate::cuda

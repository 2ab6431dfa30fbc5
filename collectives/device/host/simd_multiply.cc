// apply()'s products, per instruction set: bit for bit those of the reference, NaN included.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/device/host/simd_multiply.cc"
#include <hwy/foreach_target.h>

#include "collectives/device/host/simd_common-inl.h"
#include "collectives/device/host/simd_tables.h"

#if STEPGATE_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace stepgate::device::host {
namespace HWY_NAMESPACE {

// A float's upper half, nearest with ties to even, in the upper 16 bits; the lower ones are garbage.
HWY_INLINE hn::Vec<U32> round_to_bfloat(Floats x) {
  const U32 d;
  const auto bits = hn::BitCast(d, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fff)));
  const auto quiet = hn::Or(bits, hn::Set(d, 0x400000));
  return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(x)), quiet, rounded);
}

// Each step takes one block and says how many elements that is.
struct Fp32Step {
  static constexpr std::size_t kElements = kFloats;
  Floats multiplier;
  explicit HWY_INLINE Fp32Step(float m) : multiplier(hn::Set(D32(), m)) {}
  HWY_INLINE void operator()(const unsigned char* from, unsigned char* to) const {
    store_any(D32(), hn::Mul(load_any(D32(), from), multiplier), to);
  }
};

struct Fp64Step {
  static constexpr std::size_t kElements = kDoubles;
  Doubles multiplier;
  explicit HWY_INLINE Fp64Step(float m) : multiplier(hn::Set(D64(), m)) {}
  HWY_INLINE void operator()(const unsigned char* from, unsigned char* to) const {
    store_any(D64(), hn::Mul(load_any(D64(), from), multiplier), to);
  }
};

struct Fp16Step {
  static constexpr std::size_t kElements = kFloats;
  Floats multiplier;
  explicit HWY_INLINE Fp16Step(float m) : multiplier(hn::Set(D32(), m)) {}
  HWY_INLINE void operator()(const unsigned char* from, unsigned char* to) const {
    const hn::Rebind<hwy::float16_t, D32> halves;
    const auto products = hn::DemoteTo(halves, hn::Mul(halves_to_floats(from), multiplier));
    store_any(HalfWords(), hn::BitCast(HalfWords(), products), to);
  }
};

struct Bf16Step {
  static constexpr std::size_t kElements = 2 * kFloats;
  Floats multiplier;
  explicit HWY_INLINE Bf16Step(float m) : multiplier(hn::Set(D32(), m)) {}
  HWY_INLINE void operator()(const unsigned char* from, unsigned char* to) const {
    const U32 d;
    const auto words = load_any(d, from);
    const auto even = round_to_bfloat(hn::Mul(even_bfloats(words), multiplier));
    const auto odd = round_to_bfloat(hn::Mul(odd_bfloats(words), multiplier));
    const auto upper = hn::And(odd, hn::Set(d, 0xffff0000u));
    store_any(d, hn::Or(hn::ShiftRight<16>(even), upper), to);
  }
};

struct Fp16ToFp32Step {
  static constexpr std::size_t kElements = kFloats;
  Floats multiplier;
  explicit HWY_INLINE Fp16ToFp32Step(float m) : multiplier(hn::Set(D32(), m)) {}
  HWY_INLINE void operator()(const unsigned char* from, unsigned char* to) const {
    store_any(D32(), hn::Mul(halves_to_floats(from), multiplier), to);
  }
};

struct Bf16ToFp32Step {
  static constexpr std::size_t kElements = kFloats;
  Floats multiplier;
  explicit HWY_INLINE Bf16ToFp32Step(float m) : multiplier(hn::Set(D32(), m)) {}
  HWY_INLINE void operator()(const unsigned char* from, unsigned char* to) const {
    const auto wide = hn::ShiftLeft<16>(hn::PromoteTo(U32(), load_any(HalfWords(), from)));
    store_any(D32(), hn::Mul(hn::BitCast(D32(), wide), multiplier), to);
  }
};

// Four blocks at a time here; what is left over in the reference (which has the same bits).
template <class Step, std::size_t kFrom, std::size_t kTo>
HWY_INLINE void multiply_blocks(const unsigned char* from, unsigned char* to, std::uint64_t count,
                                float multiplier, MultiplyFn rest) {
  const Step step(multiplier);
  constexpr std::size_t kBatch = 4 * Step::kElements;
  std::uint64_t i = 0;
  for (; i + kBatch <= count; i += kBatch) {
    for (std::size_t line = 0; line < kBatch * kFrom; line += 64) {
      ask<2>(from + i * kFrom + line, 8192);
      ask<3>(from + i * kFrom + line, 1024);
    }
#pragma GCC unroll 4
    for (std::size_t k = 0; k < kBatch; k += Step::kElements)
      step(from + (i + k) * kFrom, to + (i + k) * kTo);
  }
  rest(from + i * kFrom, to + i * kTo, count - i, multiplier);
}

template <class Step, std::uint32_t kType, std::size_t kBytes>
void multiply(const unsigned char* from, unsigned char* to, std::uint64_t count, float multiplier) noexcept {
  multiply_blocks<Step, kBytes, kBytes>(from, to, count, multiplier, reference_kernels().multiply[kType]);
}

template <class Step, std::uint32_t kType>
void multiply_to_fp32(const unsigned char* from, unsigned char* to, std::uint64_t count,
                      float multiplier) noexcept {
  multiply_blocks<Step, 2, 4>(from, to, count, multiplier, reference_kernels().multiply_to_fp32[kType]);
}

void set_multiply(Kernels& k) noexcept {
  k.multiply[0] = multiply<Fp32Step, 0, 4>;
  k.multiply[1] = multiply<Fp16Step, 1, 2>;
  k.multiply[2] = multiply<Bf16Step, 2, 2>;
  k.multiply[3] = multiply<Fp64Step, 3, 8>;
  k.multiply_to_fp32[1] = multiply_to_fp32<Fp16ToFp32Step, 1>;
  k.multiply_to_fp32[2] = multiply_to_fp32<Bf16ToFp32Step, 2>;
}

}  // namespace HWY_NAMESPACE
}  // namespace stepgate::device::host
HWY_AFTER_NAMESPACE();
#endif  // STEPGATE_SIMD_TARGET

#if HWY_ONCE
namespace stepgate::device::host {

void set_multiply_avx2(Kernels& k) noexcept {
  N_AVX2::set_multiply(k);
}
void set_multiply_avx3(Kernels& k) noexcept {
  N_AVX3::set_multiply(k);
}

}  // namespace stepgate::device::host
#endif

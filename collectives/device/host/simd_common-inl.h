// Parts that the vector kernels share: lanes of each element type, the column tree, padded rows.
// Included once per instruction set, through Highway's foreach_target, by simd_*.cc alone.
//
// Thread: any, no state. What is fixed here is the order of summation; nothing else matters to bits.
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "collectives/core/grad_stats.h"
#include "collectives/device/host/float_bits.h"
#include "collectives/device/host/kernels.h"

#if defined(STEPGATE_SIMD_COMMON_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STEPGATE_SIMD_COMMON_INL_H_
#undef STEPGATE_SIMD_COMMON_INL_H_
#else
#define STEPGATE_SIMD_COMMON_INL_H_
#endif

// Only where the hardware fuses multiply and add, and converts halves: the others run the reference.
#undef STEPGATE_SIMD_TARGET
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define STEPGATE_SIMD_TARGET 1
#else
#define STEPGATE_SIMD_TARGET 0
#endif

#if STEPGATE_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace stepgate::device::host {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::ScalableTag<float>;
using D64 = hn::ScalableTag<double>;
using U8 = hn::ScalableTag<std::uint8_t>;
using U16 = hn::ScalableTag<std::uint16_t>;
using U32 = hn::ScalableTag<std::uint32_t>;
using HalfFloats = hn::Rebind<float, D64>;  // as many floats as a vector has doubles
using HalfWords = hn::Rebind<std::uint16_t, D32>;
using Floats = hn::Vec<D32>;
using Doubles = hn::Vec<D64>;
inline constexpr std::size_t kFloats = HWY_MAX_BYTES / sizeof(float);
inline constexpr std::size_t kDoubles = HWY_MAX_BYTES / sizeof(double);

// Gradients need not be aligned even to their element, so loads go through bytes.
template <class D>
HWY_INLINE hn::Vec<D> load_any(D d, const unsigned char* p) {
  const hn::Repartition<std::uint8_t, D> bytes;
  return hn::BitCast(d, hn::LoadU(bytes, p));
}

template <class D, class V>
HWY_INLINE void store_any(D d, V v, unsigned char* p) {
  const hn::Repartition<std::uint8_t, D> bytes;
  hn::StoreU(hn::BitCast(bytes, v), bytes, p);
}

// Asks for memory ahead of its use (kLocality as in __builtin_prefetch). The address is computed as a
// number, for it may lie past the buffer's end; asking is harmless there.
template <int kLocality>
HWY_INLINE void ask(const unsigned char* p, std::size_t ahead) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(p) + ahead), 0,
                     kLocality);
}

HWY_INLINE Floats halves_to_floats(const unsigned char* p) {
  const hn::Rebind<hwy::float16_t, D32> halves;
  return hn::PromoteTo(D32(), hn::BitCast(halves, load_any(HalfWords(), p)));
}

// A bf16 is the upper half of a float: of each 32-bit word, the even and the odd element.
HWY_INLINE Floats even_bfloats(hn::Vec<U32> w) {
  return hn::BitCast(D32(), hn::ShiftLeft<16>(w));
}
HWY_INLINE Floats odd_bfloats(hn::Vec<U32> w) {
  return hn::BitCast(D32(), hn::And(w, hn::Set(U32(), 0xffff0000u)));
}

HWY_INLINE Doubles widen_floats(const float* p) {
  return hn::PromoteTo(D64(), hn::LoadU(HalfFloats(), p));
}

// Neighbours of the concatenation low:high added, in order.
HWY_INLINE Doubles add_pairs(Doubles low, Doubles high) {
  const D64 d;
  return hn::Add(hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low));
}

// The tree over n sums (a power of two), in place.
HWY_INLINE double fold_pairs(double* HWY_RESTRICT sums, std::size_t n) {
  const D64 d;
  for (; n >= 2 * kDoubles; n /= 2) {
    for (std::size_t i = 0; i < n / 2; i += kDoubles) {
      hn::Store(add_pairs(hn::Load(d, sums + 2 * i), hn::Load(d, sums + 2 * i + kDoubles)), d, sums + i);
    }
  }
  for (; n > 1; n /= 2) {
    for (std::size_t i = 0; i < n / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
  }
  return sums[0];
}

// The elements after the last full row, followed by zeros: a zero changes no sum, no maximum and no
// count of non-zeros.
template <std::size_t kElementBytes>
struct PaddedRow {
  alignas(64) unsigned char bytes[kUnitColumns * kElementBytes] = {};
  PaddedRow(const unsigned char* from, std::size_t elements) {
    std::memcpy(bytes, from, elements * kElementBytes);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace stepgate::device::host
HWY_AFTER_NAMESPACE();
#endif  // STEPGATE_SIMD_TARGET

#endif  // toggle

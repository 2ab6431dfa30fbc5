// Second look at a unit, per instruction set: exact counters of inf, NaN and overranges, the finite
// maximum, and squares in fp64 columns. Only units that the first look could not settle come here.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/device/host/simd_detail.cc"
#include <hwy/foreach_target.h>

#include "collectives/device/host/fp8.h"
#include "collectives/device/host/simd_common-inl.h"
#include "collectives/device/host/simd_tables.h"

#if STEPGATE_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace stepgate::device::host {
namespace HWY_NAMESPACE {

// kDoubles elements of each type, converted exactly.
struct Fp32Wide {
  using Lane = std::int32_t;
  static HWY_INLINE Doubles load(const unsigned char* p) {
    return hn::PromoteTo(D64(), load_any(HalfFloats(), p));
  }
};
struct Fp16Wide {
  using Lane = std::int16_t;
  static HWY_INLINE Doubles load(const unsigned char* p) {
    const hn::Rebind<hwy::float16_t, D64> halves;
    std::uint16_t bits[kDoubles];
    std::memcpy(bits, p, sizeof bits);
    const hn::Rebind<std::uint16_t, D64> words;
    return hn::PromoteTo(D64(), hn::PromoteTo(HalfFloats(), hn::BitCast(halves, hn::LoadU(words, bits))));
  }
};
struct Bf16Wide {
  using Lane = std::int16_t;
  static HWY_INLINE Doubles load(const unsigned char* p) {
    std::uint16_t bits[kDoubles];
    std::memcpy(bits, p, sizeof bits);
    const hn::Rebind<std::uint16_t, D64> words;
    const hn::Rebind<std::uint32_t, D64> wide;
    const auto shifted = hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(words, bits)));
    return hn::PromoteTo(D64(), hn::BitCast(HalfFloats(), shifted));
  }
};
struct Fp64Wide {
  using Lane = std::int64_t;
  static HWY_INLINE Doubles load(const unsigned char* p) { return load_any(D64(), p); }
};

template <class Type>
HWY_INLINE void square_row(const unsigned char* row, double* HWY_RESTRICT columns) {
  const D64 d;
  for (std::size_t c = 0; c < kUnitColumns; c += kDoubles) {
    const Doubles x = Type::load(row + c * sizeof(typename Type::Lane));
    const Doubles finite = hn::IfThenElseZero(hn::IsFinite(x), x);
    hn::Store(hn::MulAdd(finite, finite, hn::Load(d, columns + c)), d, columns + c);
  }
}

// Magnitudes fit the positive half of signed lanes, which every instruction set compares.
template <class Lane>
struct Counts {
  using D = hn::ScalableTag<Lane>;
  using V = hn::Vec<D>;
  static constexpr std::size_t kLanes = HWY_MAX_BYTES / sizeof(Lane);

  HWY_INLINE Counts() : maximum(hn::Zero(D())) {}

  HWY_INLINE void add_row(const unsigned char* row, const Thresholds& limits) {
    const D d;
    const V infinity = hn::Set(d, static_cast<Lane>(limits.infinity));
    const V below_over = hn::Set(d, static_cast<Lane>(limits.over_from - 1));
    const V mask = hn::Set(d, hwy::LimitsMax<Lane>());
    for (std::size_t c = 0; c < kUnitColumns; c += kLanes) {
      const V magnitude = hn::And(load_any(d, row + c * sizeof(Lane)), mask);
      const auto finite = hn::Lt(magnitude, infinity);
      seen.inf += count(hn::Eq(magnitude, infinity));
      seen.nan += count(hn::Gt(magnitude, infinity));
      seen.overranges += count(hn::And(finite, hn::Gt(magnitude, below_over)));
      maximum = hn::Max(maximum, hn::IfThenElseZero(finite, magnitude));
    }
  }

  static HWY_INLINE std::uint32_t count(hn::Mask<D> m) {
    return static_cast<std::uint32_t>(hn::CountTrue(D(), m));
  }

  HWY_INLINE std::uint64_t largest() const {
    alignas(64) Lane lanes[kLanes];
    hn::Store(maximum, D(), lanes);
    Lane most = 0;
    for (const Lane lane : lanes) most = lane > most ? lane : most;
    return static_cast<std::uint64_t>(most);
  }

  UnitDetail seen;
  V maximum;
};

template <class Type>
UnitDetail detail(const unsigned char* unit, std::uint32_t count, const Thresholds& limits) noexcept {
  using Lane = typename Type::Lane;
  constexpr std::size_t kRow = kUnitColumns * sizeof(Lane);
  alignas(64) double columns[kUnitColumns] = {};
  Counts<Lane> counts;
  const std::size_t rows = count / kUnitColumns;
  for (std::size_t r = 0; r < rows; ++r) {
    square_row<Type>(unit + r * kRow, columns);
    counts.add_row(unit + r * kRow, limits);
  }
  if (const std::size_t rest = count % kUnitColumns; rest != 0) {
    const PaddedRow<sizeof(Lane)> last(unit + rows * kRow, rest);
    square_row<Type>(last.bytes, columns);
    counts.add_row(last.bytes, limits);
  }
  counts.seen.squares = fold_pairs(columns, kUnitColumns);
  counts.seen.maximum = counts.largest();
  return counts.seen;
}

void set_detail(Kernels& k) noexcept {
  k.detail[0] = detail<Fp32Wide>;
  k.detail[1] = detail<Fp16Wide>;
  k.detail[2] = detail<Bf16Wide>;
  k.detail[3] = detail<Fp64Wide>;
  k.detail[4] = detail_fp8<detail<Fp16Wide>, kE4M3Shift>;
  k.detail[5] = detail_fp8<detail<Fp16Wide>, kE5M2Shift>;
}

}  // namespace HWY_NAMESPACE
}  // namespace stepgate::device::host
HWY_AFTER_NAMESPACE();
#endif  // STEPGATE_SIMD_TARGET

#if HWY_ONCE
namespace stepgate::device::host {

void set_detail_avx2(Kernels& k) noexcept {
  N_AVX2::set_detail(k);
}
void set_detail_avx3(Kernels& k) noexcept {
  N_AVX3::set_detail(k);
}

}  // namespace stepgate::device::host
#endif

// First look at a unit, per instruction set: one pass over the bytes, no branch, no comparison of
// values. See kernels.h for what it yields.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/device/host/simd_look.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>

#include "collectives/device/host/simd_common-inl.h"
#include "collectives/device/host/simd_tables.h"

#if STEPGATE_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace stepgate::device::host {
namespace HWY_NAMESPACE {

// Bytes between the loads and what is asked of memory meanwhile; does not touch bits.
inline constexpr std::size_t kAhead = 4096;

// Lanes as wide as the element, counting it. A lane sees at most 512 elements of a unit.
template <class D>
struct Counters {
  using V = hn::Vec<D>;
  using T = hn::TFromD<D>;
  static constexpr int kSignBit = sizeof(T) * 8 - 1;
  static constexpr T kSign = static_cast<T>(T{1} << kSignBit);

  explicit HWY_INLINE Counters(std::uint64_t normal_from)
      : mask(hn::Set(D(), static_cast<T>(kSign - 1))),
        one(hn::Set(D(), 1)),
        to_sign(hn::Set(D(), static_cast<T>(kSign - normal_from))),
        maximum(hn::Zero(D())),
        nonzero(hn::Zero(D())),
        normal(hn::Zero(D())) {}

  HWY_INLINE void add(V bits) {
    const V magnitude = hn::And(bits, mask);
    maximum = hn::Max(maximum, magnitude);
    nonzero = hn::Add(nonzero, hn::Min(magnitude, one));
    // The sum reaches the top bit exactly when the magnitude reaches normal_from; nothing carries out.
    normal = hn::Add(normal, hn::ShiftRight<kSignBit>(hn::Add(magnitude, to_sign)));
  }

  V mask, one, to_sign, maximum, nonzero, normal;
};

HWY_INLINE std::uint32_t sum_lanes(hn::Vec<U32> v) {
  return static_cast<std::uint32_t>(hn::GetLane(hn::SumOfLanes(U32(), v)));
}
HWY_INLINE std::uint32_t sum_lanes(hn::Vec<U16> v) {
  const auto pairs = hn::BitCast(U32(), v);
  return sum_lanes(hn::Add(hn::And(pairs, hn::Set(U32(), 0xffffu)), hn::ShiftRight<16>(pairs)));
}
HWY_INLINE std::uint32_t max_lane(hn::Vec<U32> v) {
  return hn::GetLane(hn::MaxOfLanes(U32(), v));
}
HWY_INLINE std::uint32_t max_lane(hn::Vec<U16> v) {
  const auto pairs = hn::BitCast(U32(), v);
  return max_lane(hn::Max(hn::And(pairs, hn::Set(U32(), 0xffffu)), hn::ShiftRight<16>(pairs)));
}

HWY_INLINE void square(Floats x, Floats& column) {
  column = hn::MulAdd(x, x, column);
}

// A piece is what fills two accumulators. kInterleaved: the even columns lie in the first, the odd
// ones in the second.
struct Fp32Piece {
  using D = U32;
  static constexpr std::size_t kBytes = 2 * kFloats * sizeof(float);
  static constexpr bool kInterleaved = false;
  static HWY_INLINE void take(const unsigned char* p, Counters<D>& counters, Floats* columns) {
    const auto low = load_any(D(), p);
    const auto high = load_any(D(), p + kBytes / 2);
    counters.add(low);
    counters.add(high);
    square(hn::BitCast(D32(), low), columns[0]);
    square(hn::BitCast(D32(), high), columns[1]);
  }
};

struct Fp16Piece {
  using D = U16;
  static constexpr std::size_t kBytes = 2 * kFloats * sizeof(std::uint16_t);
  static constexpr bool kInterleaved = false;
  static HWY_INLINE void take(const unsigned char* p, Counters<D>& counters, Floats* columns) {
    counters.add(load_any(D(), p));
    square(halves_to_floats(p), columns[0]);
    square(halves_to_floats(p + kBytes / 2), columns[1]);
  }
};

struct Bf16Piece {
  using D = U16;
  static constexpr std::size_t kBytes = 2 * kFloats * sizeof(std::uint16_t);
  static constexpr bool kInterleaved = true;
  static HWY_INLINE void take(const unsigned char* p, Counters<D>& counters, Floats* columns) {
    const auto bits = load_any(D(), p);
    counters.add(bits);
    const auto words = hn::BitCast(U32(), bits);
    square(even_bfloats(words), columns[0]);
    square(odd_bfloats(words), columns[1]);
  }
};

inline constexpr std::size_t kPieces = kUnitColumns / (2 * kFloats);

// An address is computed as a number, for it may lie past the buffer's end; asking for it is harmless.
HWY_INLINE void ask_ahead(const unsigned char* p) {
  hwy::Prefetch(reinterpret_cast<const unsigned char*>(reinterpret_cast<std::uintptr_t>(p) + kAhead));
}

// kAsk: the row lies in a buffer whose next bytes will be wanted too.
template <class Piece, bool kAsk>
HWY_INLINE void take_row(const unsigned char* row, Counters<typename Piece::D>& counters, Floats* columns) {
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kPieces; ++i) {
    for (std::size_t line = 0; kAsk && line < Piece::kBytes; line += 64) {
      ask_ahead(row + i * Piece::kBytes + line);
    }
    Piece::take(row + i * Piece::kBytes, counters, columns + 2 * i);
  }
}

// The first level of the column tree: 256 floats to 128 doubles in natural order.
template <class Piece>
HWY_INLINE void fold_first(const float* columns, double* sums) {
  constexpr std::size_t kStep = Piece::kInterleaved ? kFloats : kDoubles;
  for (std::size_t c = 0; c < kUnitColumns; c += 2 * kStep) {
    for (std::size_t i = 0; i < kStep; i += kDoubles) {
      const Doubles a = widen_floats(columns + c + i);
      const Doubles b = widen_floats(columns + c + i + kStep);
      hn::Store(Piece::kInterleaved ? hn::Add(a, b) : add_pairs(a, b), D64(), sums + c / 2 + i);
    }
  }
}

template <class Piece>
HWY_INLINE double fold_columns(const Floats* columns) {
  alignas(64) float stored[kUnitColumns];
  alignas(64) double sums[kUnitColumns / 2];
  for (std::size_t i = 0; i < 2 * kPieces; ++i) hn::Store(columns[i], D32(), stored + i * kFloats);
  fold_first<Piece>(stored, sums);
  return fold_pairs(sums, kUnitColumns / 2);
}

template <class Piece>
UnitLook look(const unsigned char* unit, std::uint32_t count, std::uint64_t normal_from) noexcept {
  constexpr std::size_t kElement = Piece::kBytes / (2 * kFloats);
  constexpr std::size_t kRow = kUnitColumns * kElement;
  Counters<typename Piece::D> counters(normal_from);
  Floats columns[2 * kPieces];
  for (Floats& c : columns) c = hn::Zero(D32());
  const std::size_t rows = count / kUnitColumns;
  for (std::size_t r = 0; r < rows; ++r) take_row<Piece, true>(unit + r * kRow, counters, columns);
  if (const std::size_t rest = count % kUnitColumns; rest != 0) {
    const PaddedRow<kElement> last(unit + rows * kRow, rest);
    take_row<Piece, false>(last.bytes, counters, columns);
  }
  UnitLook seen;
  seen.squares = fold_columns<Piece>(columns);
  seen.maximum = max_lane(counters.maximum);
  seen.nonzero = sum_lanes(counters.nonzero);
  seen.normal = sum_lanes(counters.normal);
  return seen;
}

// fp64: the columns are doubles and live in the first-level cache.
struct DoubleLook {
  using D = hn::ScalableTag<std::int64_t>;
  using V = hn::Vec<D>;
  V maximum;
  V nonzero;
  V normal;
  alignas(64) double columns[kUnitColumns] = {};

  HWY_INLINE DoubleLook() : maximum(hn::Zero(D())), nonzero(hn::Zero(D())), normal(hn::Zero(D())) {}

  template <bool kAsk>
  HWY_INLINE void take_row(const unsigned char* row, V below_normal) {
    for (std::size_t c = 0; c < kUnitColumns; c += kDoubles) {
      if (kAsk) ask_ahead(row + c * sizeof(double));
      const auto bits = load_any(D(), row + c * sizeof(double));
      const auto magnitude = hn::And(bits, hn::Set(D(), INT64_MAX));
      const auto x = hn::BitCast(D64(), bits);
      hn::Store(hn::MulAdd(x, x, hn::Load(D64(), columns + c)), D64(), columns + c);
      maximum = hn::Max(maximum, magnitude);
      nonzero = hn::Sub(nonzero, hn::VecFromMask(D(), hn::Gt(magnitude, hn::Zero(D()))));
      normal = hn::Sub(normal, hn::VecFromMask(D(), hn::Gt(magnitude, below_normal)));
    }
  }
};

UnitLook look_fp64(const unsigned char* unit, std::uint32_t count, std::uint64_t normal_from) noexcept {
  constexpr std::size_t kRow = kUnitColumns * sizeof(double);
  const DoubleLook::D d;
  DoubleLook state;
  const auto below_normal = hn::Set(d, static_cast<std::int64_t>(normal_from) - 1);
  const std::size_t rows = count / kUnitColumns;
  for (std::size_t r = 0; r < rows; ++r) state.take_row<true>(unit + r * kRow, below_normal);
  if (const std::size_t rest = count % kUnitColumns; rest != 0) {
    const PaddedRow<sizeof(double)> last(unit + rows * kRow, rest);
    state.take_row<false>(last.bytes, below_normal);
  }
  UnitLook seen;
  seen.squares = fold_pairs(state.columns, kUnitColumns);
  seen.maximum = static_cast<std::uint64_t>(hn::GetLane(hn::MaxOfLanes(d, state.maximum)));
  seen.nonzero = static_cast<std::uint32_t>(hn::GetLane(hn::SumOfLanes(d, state.nonzero)));
  seen.normal = static_cast<std::uint32_t>(hn::GetLane(hn::SumOfLanes(d, state.normal)));
  return seen;
}

void set_look(Kernels& k) noexcept {
  k.look[0] = look<Fp32Piece>;
  k.look[1] = look<Fp16Piece>;
  k.look[2] = look<Bf16Piece>;
  k.look[3] = look_fp64;
}

}  // namespace HWY_NAMESPACE
}  // namespace stepgate::device::host
HWY_AFTER_NAMESPACE();
#endif  // STEPGATE_SIMD_TARGET

#if HWY_ONCE
namespace stepgate::device::host {

void set_look_avx2(Kernels& k) noexcept {
  N_AVX2::set_look(k);
}
void set_look_avx3(Kernels& k) noexcept {
  N_AVX3::set_look(k);
}

}  // namespace stepgate::device::host
#endif

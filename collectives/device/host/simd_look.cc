// First look at a unit, per instruction set: one pass over the bytes, no branch, no comparison of
// values. See kernels.h for what it yields.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/device/host/simd_look.cc"

#include <hwy/foreach_target.h>

#include "collectives/device/host/fp8.h"
#include "collectives/device/host/simd_common-inl.h"
#include "collectives/device/host/simd_tables.h"

#if STEPGATE_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace stepgate::device::host {
namespace HWY_NAMESPACE {

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

// Signed lanes, which every instruction set compares; magnitudes have no sign.
struct WideCounters {
  using D = hn::ScalableTag<std::int64_t>;
  using V = hn::Vec<D>;

  explicit HWY_INLINE WideCounters(std::uint64_t normal_from)
      : below_normal(hn::Set(D(), static_cast<std::int64_t>(normal_from) - 1)),
        maximum(hn::Zero(D())),
        nonzero(hn::Zero(D())),
        normal(hn::Zero(D())) {}

  HWY_INLINE void add(V bits) {
    const D d;
    const V magnitude = hn::And(bits, hn::Set(d, INT64_MAX));
    maximum = hn::IfThenElse(hn::Gt(magnitude, maximum), magnitude, maximum);
    nonzero = hn::Sub(nonzero, hn::VecFromMask(d, hn::Gt(magnitude, hn::Zero(d))));
    normal = hn::Sub(normal, hn::VecFromMask(d, hn::Gt(magnitude, below_normal)));
  }

  V below_normal, maximum, nonzero, normal;
};

HWY_INLINE std::uint32_t sum_lanes(WideCounters::V v) {
  return static_cast<std::uint32_t>(hn::GetLane(hn::SumOfLanes(WideCounters::D(), v)));
}
HWY_INLINE std::uint64_t max_lane(WideCounters::V v) {
  return static_cast<std::uint64_t>(hn::GetLane(hn::MaxOfLanes(WideCounters::D(), v)));
}

template <class V>
HWY_INLINE void square(V x, V& column) {
  column = hn::MulAdd(x, x, column);
}

// A piece is what fills two accumulators. kInterleaved: the even columns lie in the first, the odd
// ones in the second.
struct Fp32Piece {
  using Counts = Counters<U32>;
  using DColumn = D32;
  static constexpr std::size_t kElementBytes = 4;
  static constexpr bool kInterleaved = false;
  static HWY_INLINE void take(const unsigned char* p, Counts& counts, Floats* columns) {
    const auto low = load_any(U32(), p);
    const auto high = load_any(U32(), p + HWY_MAX_BYTES);
    counts.add(low);
    counts.add(high);
    square(hn::BitCast(D32(), low), columns[0]);
    square(hn::BitCast(D32(), high), columns[1]);
  }
};

struct Fp16Piece {
  using Counts = Counters<U16>;
  using DColumn = D32;
  static constexpr std::size_t kElementBytes = 2;
  static constexpr bool kInterleaved = false;
  static HWY_INLINE void take(const unsigned char* p, Counts& counts, Floats* columns) {
    counts.add(load_any(U16(), p));
    square(halves_to_floats(p), columns[0]);
    square(halves_to_floats(p + HWY_MAX_BYTES / 2), columns[1]);
  }
};

struct Bf16Piece {
  using Counts = Counters<U16>;
  using DColumn = D32;
  static constexpr std::size_t kElementBytes = 2;
  static constexpr bool kInterleaved = true;
  static HWY_INLINE void take(const unsigned char* p, Counts& counts, Floats* columns) {
    const auto bits = load_any(U16(), p);
    counts.add(bits);
    const auto words = hn::BitCast(U32(), bits);
    square(even_bfloats(words), columns[0]);
    square(odd_bfloats(words), columns[1]);
  }
};

struct Fp64Piece {
  using Counts = WideCounters;
  using DColumn = D64;
  static constexpr std::size_t kElementBytes = 8;
  static constexpr bool kInterleaved = false;
  static HWY_INLINE void take(const unsigned char* p, Counts& counts, Doubles* columns) {
    const auto low = load_any(WideCounters::D(), p);
    const auto high = load_any(WideCounters::D(), p + HWY_MAX_BYTES);
    counts.add(low);
    counts.add(high);
    square(hn::BitCast(D64(), low), columns[0]);
    square(hn::BitCast(D64(), high), columns[1]);
  }
};

// A group: as many columns as the registers hold. The rows of a unit are walked once per group.
template <class Piece>
struct Shape {
  static constexpr std::size_t kLanes = HWY_MAX_BYTES / sizeof(hn::TFromD<typename Piece::DColumn>);
  static constexpr std::size_t kGroupPieces = HWY_MAX_BYTES == 64 ? 8 : 4;
  static constexpr std::size_t kPieceBytes = 2 * kLanes * Piece::kElementBytes;
  static constexpr std::size_t kGroupColumns = 2 * kLanes * kGroupPieces;
  static constexpr std::size_t kGroupBytes = kGroupPieces * kPieceBytes;
  static constexpr std::size_t kGroups = kUnitColumns / kGroupColumns;
  static constexpr std::size_t kRowBytes = kUnitColumns * Piece::kElementBytes;
  // How far ahead of the walk memory is asked for, into the second-level cache: where a unit is
  // walked several times, exactly the next unit. And into the first-level cache: far enough for a miss
  // of the second one, for the walk of a single group stalls on each that is not there. Tuning, not bits.
  static constexpr std::size_t kFar = kGroups == 1 ? 8192 : kUnitElements * Piece::kElementBytes;
  static constexpr std::size_t kNear = kGroups == 1 ? 6144 : 2 * kRowBytes;
};

// One row's part of a group. `walk` moves through the unit's bytes in step with the work.
template <class Piece, class Column>
HWY_INLINE void take_group(const unsigned char* row, const unsigned char* walk,
                           typename Piece::Counts& counts, Column* columns) {
  using S = Shape<Piece>;
#pragma GCC unroll 8
  for (std::size_t i = 0; i < S::kGroupPieces; ++i) {
    for (std::size_t line = i * S::kPieceBytes; line < (i + 1) * S::kPieceBytes; line += 64) {
      ask<2>(walk + line, S::kFar);
      ask<3>(row + line, S::kNear);
    }
    Piece::take(row + i * S::kPieceBytes, counts, columns + 2 * i);
  }
}

// All rows of one group; the columns' sums go to `stored`.
template <class Piece, class T>
HWY_INLINE void walk_group(std::size_t group, const unsigned char* unit, std::size_t rows,
                           const PaddedRow<Piece::kElementBytes>* last, typename Piece::Counts& counts,
                           T* stored) {
  using S = Shape<Piece>;
  const typename Piece::DColumn d;
  hn::Vec<typename Piece::DColumn> columns[2 * S::kGroupPieces];
#pragma GCC unroll 16
  for (auto& c : columns) c = hn::Zero(d);
  const unsigned char* row = unit + group * S::kGroupBytes;
  const unsigned char* walk = unit + group * rows * S::kGroupBytes;
  for (std::size_t r = 0; r < rows; ++r) {
    take_group<Piece>(row, walk, counts, columns);
    row += S::kRowBytes;
    walk += S::kGroupBytes;
  }
  if (last != nullptr) take_group<Piece>(last->bytes + group * S::kGroupBytes, walk, counts, columns);
#pragma GCC unroll 16
  for (std::size_t i = 0; i < 2 * S::kGroupPieces; ++i) {
    hn::Store(columns[i], d, stored + group * S::kGroupColumns + i * S::kLanes);
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
HWY_INLINE double fold_columns(const float* columns) {
  alignas(64) double sums[kUnitColumns / 2];
  fold_first<Piece>(columns, sums);
  return fold_pairs(sums, kUnitColumns / 2);
}
template <class Piece>
HWY_INLINE double fold_columns(double* columns) {
  return fold_pairs(columns, kUnitColumns);
}

template <class Piece>
UnitLook look(const unsigned char* unit, std::uint32_t count, std::uint64_t normal_from) noexcept {
  using S = Shape<Piece>;
  const std::size_t rows = count / kUnitColumns;
  const std::size_t rest = count % kUnitColumns;
  const PaddedRow<Piece::kElementBytes> last(unit + rows * S::kRowBytes, rest);
  typename Piece::Counts counts(normal_from);
  alignas(64) hn::TFromD<typename Piece::DColumn> columns[kUnitColumns];
  for (std::size_t g = 0; g < S::kGroups; ++g) {
    walk_group<Piece>(g, unit, rows, rest != 0 ? &last : nullptr, counts, columns);
  }
  UnitLook seen;
  seen.squares = fold_columns<Piece>(columns);
  seen.maximum = max_lane(counts.maximum);
  seen.nonzero = sum_lanes(counts.nonzero);
  seen.normal = sum_lanes(counts.normal);
  return seen;
}

void set_look(Kernels& k) noexcept {
  k.look[0] = look<Fp32Piece>;
  k.look[1] = look<Fp16Piece>;
  k.look[2] = look<Bf16Piece>;
  k.look[4] = look_fp8<look<Fp16Piece>, kE4M3Shift>;
  k.look[5] = look_fp8<look<Fp16Piece>, kE5M2Shift>;
  k.look[3] = look<Fp64Piece>;
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

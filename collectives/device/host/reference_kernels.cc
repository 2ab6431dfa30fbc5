#include <cmath>
#include <cstdint>
#include <cstring>

#include "collectives/core/grad_stats.h"
#include "collectives/device/host/float_bits.h"
#include "collectives/device/host/fp8.h"
#include "collectives/device/host/kernels.h"

namespace stepgate::device::host {
namespace {

// Adjacent pairs, level by level, in place.
double fold_columns(double* columns) {
  for (std::uint32_t n = kUnitColumns; n > 1; n /= 2) {
    for (std::uint32_t i = 0; i < n / 2; ++i) columns[i] = columns[2 * i] + columns[2 * i + 1];
  }
  return columns[0];
}

template <class Accumulator, ElementType T, class Keep>
double sum_squares(const unsigned char* unit, std::uint32_t count, Keep keep) {
  Accumulator columns[kUnitColumns] = {};
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto bits = load_bits<T>(unit, i);
    if (!keep(bits & kMagnitudeMask<T>)) continue;
    const Accumulator x = Format<T>::widen(bits);
    Accumulator& column = columns[i % kUnitColumns];
    column = std::fma(x, x, column);
  }
  double wide[kUnitColumns];
  for (std::uint32_t c = 0; c < kUnitColumns; ++c) wide[c] = columns[c];
  return fold_columns(wide);
}

template <ElementType T>
UnitLook look(const unsigned char* unit, std::uint32_t count, std::uint64_t normal_from) noexcept {
  UnitLook seen;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t magnitude = load_bits<T>(unit, i) & kMagnitudeMask<T>;
    if (magnitude > seen.maximum) seen.maximum = magnitude;
    seen.nonzero += magnitude != 0;
    seen.normal += magnitude >= normal_from;
  }
  using Accumulator = typename Format<T>::Arithmetic;
  seen.squares = sum_squares<Accumulator, T>(unit, count, [](std::uint64_t) { return true; });
  return seen;
}

template <ElementType T>
UnitDetail detail(const unsigned char* unit, std::uint32_t count, const Thresholds& limits) noexcept {
  UnitDetail seen;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t magnitude = load_bits<T>(unit, i) & kMagnitudeMask<T>;
    seen.inf += magnitude == limits.infinity;
    seen.nan += magnitude > limits.infinity;
    if (magnitude >= limits.infinity) continue;
    seen.overranges += magnitude >= limits.over_from;
    if (magnitude > seen.maximum) seen.maximum = magnitude;
  }
  const std::uint64_t infinity = limits.infinity;
  seen.squares = sum_squares<double, T>(unit, count, [infinity](std::uint64_t m) { return m < infinity; });
  return seen;
}

template <ElementType T, class Result, Result (*kNarrow)(typename Format<T>::Arithmetic)>
void multiply_into(const unsigned char* from, unsigned char* to, std::uint64_t count, float multiplier) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const Result product = kNarrow(Format<T>::widen(load_bits<T>(from, i)) * multiplier);
    std::memcpy(to + i * sizeof product, &product, sizeof product);
  }
}

template <ElementType T>
void multiply(const unsigned char* from, unsigned char* to, std::uint64_t count, float multiplier) noexcept {
  multiply_into<T, typename Format<T>::Bits, Format<T>::narrow>(from, to, count, multiplier);
}

float same(float x) {
  return x;
}

template <ElementType T>
void multiply_to_fp32(const unsigned char* from, unsigned char* to, std::uint64_t count,
                      float multiplier) noexcept {
  multiply_into<T, float, same>(from, to, count, multiplier);
}

using enum ElementType;
constexpr Kernels kReference = {
    "reference",
    {look<kFp32>, look<kFp16>, look<kBf16>, look<kFp64>, look_fp8<look<kFp16>, kE4M3Shift>,
     look_fp8<look<kFp16>, kE5M2Shift>},
    {detail<kFp32>, detail<kFp16>, detail<kBf16>, detail<kFp64>, detail_fp8<detail<kFp16>, kE4M3Shift>,
     detail_fp8<detail<kFp16>, kE5M2Shift>},
    {multiply<kFp32>, multiply<kFp16>, multiply<kBf16>, multiply<kFp64>},
    {nullptr, multiply_to_fp32<kFp16>, multiply_to_fp32<kBf16>, nullptr},
};

}  // namespace

const Kernels& reference_kernels() noexcept {
  return kReference;
}

}  // namespace stepgate::device::host

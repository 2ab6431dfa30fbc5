#include "tests/collectives/ucx/values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "collectives/ucx/reduce.h"
#include "tests/collectives/half.h"

namespace stepgate::transport::testing {
namespace {

template <typename T>
double load(const unsigned char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

template <typename T>
void store(unsigned char* at, double number) {
  const T value = static_cast<T>(number);
  std::memcpy(at, &value, sizeof value);
}

uint16_t load16(const unsigned char* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

double rounded(double value, sgt_type type) {
  Buffer one(type, 1);
  one.set(0, value);
  return one.get(0);
}

double average(double sum, int size, sgt_type type) {
  if (is_integer(type)) return std::trunc(sum / size);
  if (type == SGT_FLOAT64) return sum / size;
  return rounded(static_cast<float>(sum) / static_cast<float>(size), type);
}

}  // namespace

const char* name_of(sgt_type type) {
  static constexpr const char* kNames[] = {"int8",    "uint8",   "int32",   "uint32",   "int64", "uint64",
                                           "float16", "float32", "float64", "bfloat16", "e4m3",  "e5m2"};
  return kNames[type];
}

const char* name_of(sgt_reduction reduction) {
  static constexpr const char* kNames[] = {"sum", "prod", "max", "min", "avg"};
  return kNames[reduction];
}

bool is_unsigned(sgt_type type) {
  return type == SGT_UINT8 || type == SGT_UINT32 || type == SGT_UINT64;
}
bool is_integer(sgt_type type) {
  return type <= SGT_UINT64;
}

bool is_fp8(sgt_type type) {
  return type == SGT_FLOAT8E4M3 || type == SGT_FLOAT8E5M2;
}

uint16_t to_half(float value) {
  return stepgate::testing::half_bits(value);
}
float from_half(uint16_t bits) {
  return static_cast<float>(stepgate::testing::half_value(bits));
}
float from_bfloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Of the two neighbours the nearer, of two equally near ones the even. Finite input whose neighbours are
// finite, or beyond half way to 2^128: infinity.
uint16_t to_bfloat(float value) {
  const auto below = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);  // towards zero
  if (!std::isfinite(value)) return below;
  const auto above = static_cast<uint16_t>(below + 1);
  const double low = from_bfloat(below);
  const double high = std::isinf(from_bfloat(above)) ? std::copysign(0x1p128, low) : from_bfloat(above);
  const double to_low = std::fabs(value - low), to_high = std::fabs(high - value);
  if (to_low != to_high) return to_low < to_high ? below : above;
  return below % 2 == 0 ? below : above;
}

namespace {

double decode_fp8(sgt_type type, uint8_t bits) {
  const bool e4m3 = type == SGT_FLOAT8E4M3;
  const int mantissa_bits = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15;
  const int magnitude = bits & 0x7f;
  const int exponent = magnitude >> mantissa_bits, mantissa = magnitude & ((1 << mantissa_bits) - 1);
  const double sign = bits & 0x80 ? -1 : 1;
  if (e4m3 ? magnitude == 0x7f : magnitude > 0x7c) return std::nan("");
  if (!e4m3 && magnitude == 0x7c) return sign * HUGE_VAL;
  const int implicit = exponent == 0 ? 0 : 1 << mantissa_bits;
  return sign * std::ldexp(implicit + mantissa, std::max(exponent, 1) - bias - mantissa_bits);
}

std::array<double, 256> decoded(sgt_type type) {
  std::array<double, 256> values;
  for (size_t bits = 0; bits < values.size(); ++bits)
    values[bits] = decode_fp8(type, static_cast<uint8_t>(bits));
  return values;
}

}  // namespace

double from_fp8(sgt_type type, uint8_t bits) {
  static const std::array<double, 256> e4m3 = decoded(SGT_FLOAT8E4M3), e5m2 = decoded(SGT_FLOAT8E5M2);
  return (type == SGT_FLOAT8E4M3 ? e4m3 : e5m2)[bits];
}

uint8_t to_fp8(sgt_type type, double value) {
  const bool e4m3 = type == SGT_FLOAT8E4M3;
  if (std::isnan(value)) return e4m3 ? 0x7f : 0x7e;
  const int largest = e4m3 ? 0x7e : 0x7b;
  const double magnitude = std::fabs(value);
  int above = largest;  // the lowest value that is not below; the values grow with their bits
  for (int step = 64; step > 0; step /= 2)
    while (above >= step && from_fp8(type, static_cast<uint8_t>(above - step)) >= magnitude) above -= step;
  const int below = std::max(above - 1, 0);
  const double up = std::fabs(from_fp8(type, static_cast<uint8_t>(above)) - magnitude);
  const double down = std::fabs(from_fp8(type, static_cast<uint8_t>(below)) - magnitude);
  const int best = up < down || (up == down && above % 2 == 0) ? above : below;
  const bool saturates = magnitude >= from_fp8(type, static_cast<uint8_t>(largest));
  return static_cast<uint8_t>((saturates ? largest : best) | (std::signbit(value) ? 0x80 : 0));
}

Buffer::Buffer(sgt_type type, size_t count)
    : type_(type), width_(width_of(type)), count_(count), bytes_(count * width_) {}

double Buffer::get(size_t index) const {
  const unsigned char* at = bytes_.data() + index * width_;
  switch (type_) {
    case SGT_INT8: return load<int8_t>(at);
    case SGT_UINT8: return load<uint8_t>(at);
    case SGT_INT32: return load<int32_t>(at);
    case SGT_UINT32: return load<uint32_t>(at);
    case SGT_INT64: return load<int64_t>(at);
    case SGT_UINT64: return load<uint64_t>(at);
    case SGT_FLOAT32: return load<float>(at);
    case SGT_FLOAT64: return load<double>(at);
    case SGT_FLOAT16: return from_half(load16(at));
    case SGT_BFLOAT16: return from_bfloat(load16(at));
    case SGT_FLOAT8E4M3:
    case SGT_FLOAT8E5M2: return from_fp8(type_, *at);
  }
  return 0;
}

void Buffer::set(size_t index, double value) {
  unsigned char* at = bytes_.data() + index * width_;
  const auto single = static_cast<float>(value);
  switch (type_) {
    case SGT_INT8: return store<int8_t>(at, value);
    case SGT_UINT8: return store<uint8_t>(at, value);
    case SGT_INT32: return store<int32_t>(at, value);
    case SGT_UINT32: return store<uint32_t>(at, value);
    case SGT_INT64: return store<int64_t>(at, value);
    case SGT_UINT64: return store<uint64_t>(at, value);
    case SGT_FLOAT32: return store<float>(at, value);
    case SGT_FLOAT64: return store<double>(at, value);
    case SGT_FLOAT16: return store<uint16_t>(at, to_half(single));
    case SGT_BFLOAT16: return store<uint16_t>(at, to_bfloat(single));
    case SGT_FLOAT8E4M3:
    case SGT_FLOAT8E5M2: *at = to_fp8(type_, value); return;
  }
}

double sample(int rank, size_t index, sgt_type type, sgt_reduction reduction) {
  const auto i = static_cast<int>(index % 97);
  if (reduction == SGT_PROD) {
    if ((i + rank) % 3 != 0) return 1;
    return is_unsigned(type) || i % 2 == 0 ? 2 : -2;
  }
  if (is_fp8(type)) return (i + 2 * rank) % 3 - 1;
  const int value = (i * (rank + 2) + rank) % 13;
  return is_unsigned(type) ? value : value - 6;
}

double expected(int size, size_t index, sgt_type type, sgt_reduction reduction) {
  double result = sample(0, index, type, reduction);
  for (int rank = 1; rank < size; ++rank) {
    const double value = sample(rank, index, type, reduction);
    if (reduction == SGT_PROD)
      result *= value;
    else if (reduction == SGT_MAX)
      result = std::max(result, value);
    else if (reduction == SGT_MIN)
      result = std::min(result, value);
    else
      result += value;
  }
  return reduction == SGT_AVG ? average(result, size, type) : result;
}

}  // namespace stepgate::transport::testing

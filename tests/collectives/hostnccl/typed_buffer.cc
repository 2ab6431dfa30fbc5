#include "tests/collectives/hostnccl/typed_buffer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "tests/collectives/half.h"

namespace stepgate::hostnccl::test {
namespace {

// Stored as the upper half of an fp32, to nearest even.
std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

template <typename T>
void store(std::byte* place, T value) {
  std::memcpy(place, &value, sizeof value);
}

template <typename T>
double load(const std::byte* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return static_cast<double>(value);
}

std::uint16_t load_bits(const std::byte* place) {
  std::uint16_t bits;
  std::memcpy(&bits, place, sizeof bits);
  return bits;
}

std::size_t width_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
  }
}

bool is_signed(ncclDataType_t type) {
  return type != ncclUint8 && type != ncclUint32 && type != ncclUint64;
}

}  // namespace

TypedBuffer::TypedBuffer(ncclDataType_t type, std::size_t count)
    : type_(type), width_(width_of(type)), bytes_(count * width_) {}

void TypedBuffer::set(std::size_t index, double value) {
  std::byte* place = bytes_.data() + index * width_;
  switch (type_) {
    case ncclInt8: return store(place, static_cast<std::int8_t>(value));
    case ncclUint8: return store(place, static_cast<std::uint8_t>(value));
    case ncclInt32: return store(place, static_cast<std::int32_t>(value));
    case ncclUint32: return store(place, static_cast<std::uint32_t>(value));
    case ncclInt64: return store(place, static_cast<std::int64_t>(value));
    case ncclUint64: return store(place, static_cast<std::uint64_t>(value));
    case ncclFloat16: return store(place, stepgate::testing::half_bits(value));
    case ncclFloat32: return store(place, static_cast<float>(value));
    case ncclBfloat16: return store(place, to_bfloat16(static_cast<float>(value)));
    case ncclFloat8e4m3:
    case ncclFloat8e5m2: return store(place, to_fp8(type_, value));
    default: return store(place, value);
  }
}

double TypedBuffer::get(std::size_t index) const {
  const std::byte* place = bytes_.data() + index * width_;
  switch (type_) {
    case ncclInt8: return load<std::int8_t>(place);
    case ncclUint8: return load<std::uint8_t>(place);
    case ncclInt32: return load<std::int32_t>(place);
    case ncclUint32: return load<std::uint32_t>(place);
    case ncclInt64: return load<std::int64_t>(place);
    case ncclUint64: return load<std::uint64_t>(place);
    case ncclFloat16: return stepgate::testing::half_value(load_bits(place));
    case ncclFloat32: return load<float>(place);
    case ncclBfloat16: return from_bfloat16(load_bits(place));
    case ncclFloat8e4m3:
    case ncclFloat8e5m2: return from_fp8(type_, static_cast<std::uint8_t>(*place));
    default: return load<double>(place);
  }
}

bool is_integer(ncclDataType_t type) {
  return type <= ncclUint64;
}

bool is_fp8(ncclDataType_t type) {
  return type == ncclFloat8e4m3 || type == ncclFloat8e5m2;
}

namespace {

double decode_fp8(ncclDataType_t type, std::uint8_t bits) {
  const bool e4m3 = type == ncclFloat8e4m3;
  const int mantissa_bits = e4m3 ? 3 : 2;
  const int bias = e4m3 ? 7 : 15;
  const int magnitude = bits & 0x7f;
  const int exponent = magnitude >> mantissa_bits;
  const int mantissa = magnitude & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x80) != 0 ? -1 : 1;
  if (e4m3 ? magnitude == 0x7f : magnitude > 0x7c) return std::nan("");
  if (!e4m3 && magnitude == 0x7c) return sign * HUGE_VAL;
  const int implicit = exponent == 0 ? 0 : 1 << mantissa_bits;
  return sign * std::ldexp(implicit + mantissa, std::max(exponent, 1) - bias - mantissa_bits);
}

std::array<double, 256> decoded(ncclDataType_t type) {
  std::array<double, 256> values;
  for (std::size_t bits = 0; bits < values.size(); ++bits)
    values[bits] = decode_fp8(type, static_cast<std::uint8_t>(bits));
  return values;
}

}  // namespace

double from_fp8(ncclDataType_t type, std::uint8_t bits) {
  static const std::array<double, 256> e4m3 = decoded(ncclFloat8e4m3);
  static const std::array<double, 256> e5m2 = decoded(ncclFloat8e5m2);
  return (type == ncclFloat8e4m3 ? e4m3 : e5m2)[bits];
}

std::uint8_t to_fp8(ncclDataType_t type, double value) {
  const bool e4m3 = type == ncclFloat8e4m3;
  if (std::isnan(value)) return e4m3 ? 0x7f : 0x7e;
  const int largest = e4m3 ? 0x7e : 0x7b;
  const auto at = [&](int bits) { return from_fp8(type, static_cast<std::uint8_t>(bits)); };
  const double wanted = std::fabs(value);
  int above = largest;  // the lowest value that is not below; the values grow with their bits
  for (int step = 64; step > 0; step /= 2) {
    while (above >= step && at(above - step) >= wanted) above -= step;
  }
  const int below = std::max(above - 1, 0);
  const double up = std::fabs(at(above) - wanted);
  const double down = std::fabs(at(below) - wanted);
  const bool takes_above = wanted >= at(largest) || up < down || (up == down && above % 2 == 0);
  return static_cast<std::uint8_t>((takes_above ? above : below) | (std::signbit(value) ? 0x80 : 0));
}

double sample(ncclDataType_t type, ncclRedOp_t op, int rank, std::size_t index) {
  const std::size_t mixed = index * 7 + static_cast<std::size_t>(rank) * 3;
  // Six factors of 2 at most: 64 fits into every type, int8 included.
  if (op == ncclProd) return rank < 6 ? static_cast<double>(1 + mixed % 2) : 1;
  if (is_fp8(type)) return static_cast<double>(mixed % 3) - 1;
  const double value = static_cast<double>(mixed % 15);
  return is_signed(type) ? value - 7 : value;
}

double reduced(ncclDataType_t type, ncclRedOp_t op, int size, std::size_t index) {
  double result = sample(type, op, 0, index);
  for (int rank = 1; rank < size; ++rank) {
    const double next = sample(type, op, rank, index);
    switch (op) {
      case ncclProd: result *= next; break;
      case ncclMax: result = std::max(result, next); break;
      case ncclMin: result = std::min(result, next); break;
      default: result += next;
    }
  }
  if (op != ncclAvg) return result;
  const double average = result / size;
  return is_integer(type) ? std::trunc(average) : average;
}

bool matches(ncclDataType_t type, double got, double want) {
  const double stored = rounded(type, want);
  if (got == stored) return true;
  const double slack = type == ncclFloat8e5m2   ? 0x1p-2
                       : type == ncclFloat8e4m3 ? 0x1p-3
                       : type == ncclBfloat16   ? 0x1p-8
                       : type == ncclFloat16    ? 0x1p-10
                                                : 0x1p-22;
  return !is_integer(type) && stored != std::trunc(stored) &&
         std::fabs(got - stored) <= slack * std::fabs(stored);
}

double rounded(ncclDataType_t type, double value) {
  TypedBuffer one(type, 1);
  one.set(0, value);
  return one.get(0);
}

}  // namespace stepgate::hostnccl::test

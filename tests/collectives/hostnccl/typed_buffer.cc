#include "tests/collectives/hostnccl/typed_buffer.h"

#include <algorithm>
#include <bit>
#include <cmath>

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

std::size_t width_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
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
    case ncclFloat16: return store(place, static_cast<_Float16>(value));
    case ncclFloat32: return store(place, static_cast<float>(value));
    case ncclBfloat16: return store(place, to_bfloat16(static_cast<float>(value)));
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
    case ncclFloat16: return load<_Float16>(place);
    case ncclFloat32: return load<float>(place);
    case ncclBfloat16: {
      std::uint16_t bits;
      std::memcpy(&bits, place, sizeof bits);
      return from_bfloat16(bits);
    }
    default: return load<double>(place);
  }
}

bool is_integer(ncclDataType_t type) {
  return type <= ncclUint64;
}

double sample(ncclDataType_t type, ncclRedOp_t op, int rank, std::size_t index) {
  const std::size_t mixed = index * 7 + static_cast<std::size_t>(rank) * 3;
  // Six factors of 2 at most: 64 fits into every type, int8 included.
  if (op == ncclProd) return rank < 6 ? static_cast<double>(1 + mixed % 2) : 1;
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

double rounded(ncclDataType_t type, double value) {
  TypedBuffer one(type, 1);
  one.set(0, value);
  return one.get(0);
}

}  // namespace stepgate::hostnccl::test

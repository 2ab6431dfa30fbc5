// A buffer of one of NCCL's types, written and read as double, and the scalar reference of a reduction.
//
//   TypedBuffer in(ncclFloat16, 100);
//   in.set(3, 1.5);  double x = in.get(3);
//
// Plain values, one thread each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"

namespace stepgate::hostnccl::test {

constexpr ncclDataType_t kTypes[] = {ncclInt8,    ncclUint8,    ncclInt32,      ncclUint32,
                                     ncclInt64,   ncclUint64,   ncclFloat16,    ncclFloat32,
                                     ncclFloat64, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2};
constexpr ncclRedOp_t kOps[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};

class TypedBuffer {
 public:
  TypedBuffer(ncclDataType_t type, std::size_t count);

  void* at(std::size_t index) { return bytes_.data() + index * width_; }
  void* data() { return bytes_.data(); }
  void set(std::size_t index, double value);
  double get(std::size_t index) const;
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  ncclDataType_t type_;
  std::size_t width_;
  std::vector<std::byte> bytes_;
};

bool is_integer(ncclDataType_t type);
bool is_fp8(ncclDataType_t type);

// By the definitions of e4m3 and e5m2; to the nearest of their values, at most the largest finite one.
double from_fp8(ncclDataType_t type, std::uint8_t bits);
std::uint8_t to_fp8(ncclDataType_t type, double value);

// What element `index` of rank `rank` holds: small whole numbers, negative ones where the type has them,
// so that every sum and product of eight ranks is exact in every type (fp8: -1 to 1) and a wrong element is
// seen.
double sample(ncclDataType_t type, ncclRedOp_t op, int rank, std::size_t index);

// The reduction over `size` ranks in double, with the integer types' division for the average.
double reduced(ncclDataType_t type, ncclRedOp_t op, int size, std::size_t index);

// `value` as the type stores it.
double rounded(ncclDataType_t type, double value);

// Averages that the type cannot hold exactly may differ by how often the sum was rounded: one place.
bool matches(ncclDataType_t type, double got, double want);

}  // namespace stepgate::hostnccl::test

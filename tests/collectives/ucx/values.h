// Typed buffers for tests, and the scalar reference that collectives are held against. The conversions
// here share no code with the product: fp16 goes by its definition, bf16 and fp8 a search for the
// nearest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/ucx/transport.h"

namespace stepgate::transport::testing {

inline constexpr sgt_type kAllTypes[] = {SGT_INT8,    SGT_UINT8,    SGT_INT32,      SGT_UINT32,
                                         SGT_INT64,   SGT_UINT64,   SGT_FLOAT16,    SGT_FLOAT32,
                                         SGT_FLOAT64, SGT_BFLOAT16, SGT_FLOAT8E4M3, SGT_FLOAT8E5M2};
inline constexpr sgt_reduction kAllReductions[] = {SGT_SUM, SGT_PROD, SGT_MAX, SGT_MIN, SGT_AVG};

const char* name_of(sgt_type type);
const char* name_of(sgt_reduction reduction);
bool is_unsigned(sgt_type type);
bool is_integer(sgt_type type);
bool is_fp8(sgt_type type);

uint16_t to_half(float value);
float from_half(uint16_t bits);
uint16_t to_bfloat(float value);
float from_bfloat(uint16_t bits);
// By the formats' definitions; to the nearest of all 256 values, the even one of two, at most the largest
// finite one.
double from_fp8(sgt_type type, uint8_t bits);
uint8_t to_fp8(sgt_type type, double value);

class Buffer {
 public:
  Buffer(sgt_type type, size_t count);

  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  void* at(size_t index) { return bytes_.data() + index * width_; }
  size_t count() const { return count_; }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

  double get(size_t index) const;
  // Rounds to the type; a value outside an integer type's range is an error of the test.
  void set(size_t index, double value);

 private:
  sgt_type type_;
  size_t width_;
  size_t count_;
  std::vector<unsigned char> bytes_;
};

// What rank `rank` contributes at `index`: small integers, so that every sum and product of eight ranks
// is exact in every type (of fp8, -1 to 1). Products stay small because most factors are 1.
double sample(int rank, size_t index, sgt_type type, sgt_reduction reduction);

// The right answer at `index` over `size` ranks, already rounded to the type where it has to be.
double expected(int size, size_t index, sgt_type type, sgt_reduction reduction);

}  // namespace stepgate::transport::testing

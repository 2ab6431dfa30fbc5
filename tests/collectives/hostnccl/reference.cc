#include "tests/collectives/hostnccl/reference.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stepgate::hostnccl::test {
namespace {

// Averages that the type cannot hold exactly may differ by how often the sum was rounded: one place.
bool equal(ncclDataType_t type, double got, double want) {
  const double stored = rounded(type, want);
  if (got == stored) return true;
  const double slack = type == ncclBfloat16 ? 0x1p-8 : type == ncclFloat16 ? 0x1p-10 : 0x1p-22;
  return !is_integer(type) && stored != std::trunc(stored) &&
         std::fabs(got - stored) <= slack * std::fabs(stored);
}

}  // namespace

void fill(TypedBuffer* buffer, std::size_t at, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
          int rank, std::size_t first) {
  for (std::size_t i = 0; i < count; ++i) buffer->set(at + i, sample(type, op, rank, first + i));
}

void expect_reduced(const TypedBuffer& buffer, std::size_t at, std::size_t count, ncclDataType_t type,
                    ncclRedOp_t op, int size, std::size_t first) {
  for (std::size_t i = 0; i < count; ++i) {
    const double want = reduced(type, op, size, first + i);
    ASSERT_TRUE(equal(type, buffer.get(at + i), want))
        << "type " << type << " op " << op << " count " << count << " element " << i << ": "
        << buffer.get(at + i) << " instead of " << want;
  }
}

}  // namespace stepgate::hostnccl::test

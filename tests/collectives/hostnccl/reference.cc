#include "tests/collectives/hostnccl/reference.h"

#include <gtest/gtest.h>

namespace stepgate::hostnccl::test {
void fill(TypedBuffer* buffer, std::size_t at, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
          int rank, std::size_t first) {
  for (std::size_t i = 0; i < count; ++i) buffer->set(at + i, sample(type, op, rank, first + i));
}

void expect_reduced(const TypedBuffer& buffer, std::size_t at, std::size_t count, ncclDataType_t type,
                    ncclRedOp_t op, int size, std::size_t first) {
  for (std::size_t i = 0; i < count; ++i) {
    const double want = reduced(type, op, size, first + i);
    ASSERT_TRUE(matches(type, buffer.get(at + i), want))
        << "type " << type << " op " << op << " count " << count << " element " << i << ": "
        << buffer.get(at + i) << " instead of " << want;
  }
}

}  // namespace stepgate::hostnccl::test

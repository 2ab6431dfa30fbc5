// What the collectives must come to, element by element: the values of typed_buffer.h, compared with the
// slack that a type's rounding asks for.
//
// Plain functions on the caller's buffers; ASSERT inside, so that the first wrong element ends it.
#pragma once

#include <cstddef>

#include "tests/collectives/hostnccl/typed_buffer.h"

namespace stepgate::hostnccl::test {

void fill(TypedBuffer* buffer, std::size_t at, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
          int rank, std::size_t first = 0);

// Elements [at, at + count) hold the reduction of the elements from `first` on.
void expect_reduced(const TypedBuffer& buffer, std::size_t at, std::size_t count, ncclDataType_t type,
                    ncclRedOp_t op, int size, std::size_t first = 0);

}  // namespace stepgate::hostnccl::test

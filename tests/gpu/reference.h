// What a scan must find, written from the meaning of the formats alone: every element becomes a double by
// its definition, is counted by comparing values, and is summed in the order that docs/semantics.md states.
// It shares no code with the kernels. All six types.
//
// Thread: any, several at once. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/core/element_type.h"
#include "collectives/core/grad_stats.h"

namespace stepgate::gpu {

using Bytes = std::vector<unsigned char>;

double value_of(ElementType t, std::uint64_t bits);
GradStats reference_scan(ElementType stored, ElementType compute, const unsigned char* data,
                         std::uint64_t count);
// The sum of squares of the finite elements in long double, in any order.
long double exact_squares(ElementType stored, const unsigned char* data, std::uint64_t count);

// Bits of special values; -1 where the type has none.
std::int64_t infinity_of(ElementType t);
std::uint64_t nan_of(ElementType t);
std::uint64_t largest_of(ElementType t);
std::uint64_t sign_of(ElementType t);

// `offset` bytes of padding, then the elements.
Bytes packed(ElementType t, const std::vector<std::uint64_t>& elements, std::size_t offset);

// Empty where all figures are equal in bits.
std::string difference(const GradStats& got, const GradStats& want);

}  // namespace stepgate::gpu

// Gradients to test with: adversarial ones of any type, built from bits, and large healthy ones, made fast.
//
// Thread: any; each call has the generator that it is given. Pure otherwise.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/gpu/reference.h"
#include "tests/test_seed.h"

namespace stepgate::gpu {

using Elements = std::vector<std::uint64_t>;
using Random = std::mt19937_64;
using test::test_seed;

inline constexpr ElementType kAllTypes[] = {ElementType::kFp32, ElementType::kFp16,    ElementType::kBf16,
                                            ElementType::kFp64, ElementType::kFp8E4M3, ElementType::kFp8E5M2};

struct Case {
  std::string name;
  Elements elements;
};

Elements any_bits(ElementType t, std::size_t n, Random& random);
// Columns so far apart in magnitude that another order of summation gives other bits.
Elements spread(ElementType t, std::size_t n, Random& random);
// All zero, all subnormal, one bad element at the first, last and an unaligned place, largest values, ...
std::vector<Case> adversarial(ElementType t, Random& random);

// count elements around 2^-4, all finite, none zero; as bytes.
Bytes healthy_bytes(ElementType t, std::uint64_t count, std::uint64_t seed);

}  // namespace stepgate::gpu

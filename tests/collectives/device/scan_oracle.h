// An independent, slow scan and multiply: written from the meaning of the numbers (exponents, values,
// the stated order of summation), not from bit tricks. Everything else is compared with it.
//
// Thread: any; the caller runs it in the default floating-point environment.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "collectives/core/element_type.h"
#include "collectives/core/grad_stats.h"

namespace stepgate::test {

// Elements as raw bits, whatever their type.
using Elements = std::vector<std::uint64_t>;

inline constexpr ElementType kStoredTypes[] = {ElementType::kFp32, ElementType::kFp16, ElementType::kBf16,
                                               ElementType::kFp64};

std::string type_label(ElementType t);
std::uint64_t sign_bit(ElementType t);
std::uint64_t infinity_bits(ElementType t);
std::uint64_t nan_bits(ElementType t);
std::uint64_t largest_bits(ElementType t);

double decode(ElementType t, std::uint64_t bits);
// The sum in the order of a scan: neighbours in pairs, again and again; 0 for none.
double fold(std::vector<double> sums);
// Nearest, ties to even; overflow to inf.
std::uint64_t encode(ElementType t, double value);

Elements encode_all(ElementType t, const std::vector<double>& values);
// `offset` bytes of padding, then the elements.
std::vector<unsigned char> pack(ElementType t, const Elements& e, std::size_t offset = 0);
Elements unpack(ElementType t, const unsigned char* data, std::size_t count);

GradStats oracle_scan(ElementType stored, ElementType compute, const Elements& e);
// What apply must store; NaN comes out as some NaN.
std::uint64_t oracle_product(ElementType t, std::uint64_t bits, float multiplier);

// Values of a healthy gradient: normal, around 2^-10, some zeros.
Elements healthy(ElementType t, std::size_t n, std::mt19937_64& random);
// Any bits at all.
Elements any_bits(ElementType t, std::size_t n, std::mt19937_64& random);

// Empty when equal bit for bit, else which field differs and how.
std::string difference(const GradStats& got, const GradStats& want);

}  // namespace stepgate::test

// Dense products, row-major, in blocks that stay in vector registers.
//
// Each element is summed over k in order, whatever the blocks: same input, same bits.
// Thread: any. Order, lock: none. Ownership: the caller's memory; outputs may not overlap inputs.
#pragma once

#include <cstddef>

namespace stepgate::charlm {

// c[m][n] = sum over k of a[m][k] * b[k][n]
template <typename T>
void multiply(const T* a, const T* b, T* c, std::size_t m, std::size_t k, std::size_t n);

// out[columns][rows] = in[rows][columns]
template <typename T>
void transpose(const T* in, T* out, std::size_t rows, std::size_t columns);

}  // namespace stepgate::charlm

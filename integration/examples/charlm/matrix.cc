#include "integration/examples/charlm/matrix.h"

#include <algorithm>

namespace stepgate::charlm {
namespace {

constexpr std::size_t kRows = 4;  // of one register block
constexpr std::size_t kColumns = 8;

// The block of kRows x kColumns at c, its sums in registers.
template <typename T>
void multiply_block(const T* a, const T* b, T* c, std::size_t k, std::size_t n) {
  T sum[kRows][kColumns] = {};
  for (std::size_t i = 0; i < k; ++i) {
    const T* row = b + i * n;
    for (std::size_t r = 0; r < kRows; ++r) {
      const T factor = a[r * k + i];
      for (std::size_t col = 0; col < kColumns; ++col) sum[r][col] += factor * row[col];
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) std::copy_n(sum[r], kColumns, c + r * n);
}

// What is left at the lower and right edge.
template <typename T>
void multiply_edge(const T* a, const T* b, T* c, std::size_t rows, std::size_t columns, std::size_t k,
                   std::size_t n) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t col = 0; col < columns; ++col) {
      T sum = 0;
      for (std::size_t i = 0; i < k; ++i) sum += a[r * k + i] * b[i * n + col];
      c[r * n + col] = sum;
    }
  }
}

}  // namespace

template <typename T>
void multiply(const T* a, const T* b, T* c, std::size_t m, std::size_t k, std::size_t n) {
  const std::size_t whole_m = m - m % kRows;
  const std::size_t whole_n = n - n % kColumns;
  for (std::size_t col = 0; col < whole_n; col += kColumns) {
    for (std::size_t row = 0; row < whole_m; row += kRows) {
      multiply_block(a + row * k, b + col, c + row * n + col, k, n);
    }
  }
  if (whole_n < n) multiply_edge(a, b + whole_n, c + whole_n, whole_m, n - whole_n, k, n);
  if (whole_m < m) multiply_edge(a + whole_m * k, b, c + whole_m * n, m - whole_m, n, k, n);
}

template <typename T>
void transpose(const T* in, T* out, std::size_t rows, std::size_t columns) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) out[c * rows + r] = in[r * columns + c];
  }
}

template void multiply(const float*, const float*, float*, std::size_t, std::size_t, std::size_t);
template void multiply(const double*, const double*, double*, std::size_t, std::size_t, std::size_t);
template void transpose(const float*, float*, std::size_t, std::size_t);
template void transpose(const double*, double*, std::size_t, std::size_t);

}  // namespace stepgate::charlm

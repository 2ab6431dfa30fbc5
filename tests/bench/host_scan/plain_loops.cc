#include "tests/bench/host_scan/plain_loops.h"

namespace stepgate::bench {

__attribute__((target_clones("avx512f", "avx2", "default"))) std::uint64_t sum_words(
    const unsigned char* buffer, std::size_t bytes) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(buffer);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes / sizeof *words; ++i) sum += words[i];
  return sum;
}

__attribute__((target_clones("avx512f", "avx2", "default"))) void scale_floats(unsigned char* buffer,
                                                                               std::size_t bytes,
                                                                               float multiplier) {
  auto* values = reinterpret_cast<float*>(buffer);
  for (std::size_t i = 0; i < bytes / sizeof *values; ++i) values[i] *= multiplier;
}

}  // namespace stepgate::bench

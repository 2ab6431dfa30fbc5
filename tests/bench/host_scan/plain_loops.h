// The loops that a scan and an apply are measured against: the least work that reads, or reads and
// writes, every byte. Compiled with full optimisation for the machine at hand.
//
// Thread: any, no state. Ownership: the caller's buffers, multiples of 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stepgate::bench {

std::uint64_t sum_words(const unsigned char* buffer, std::size_t bytes);
void scale_floats(unsigned char* buffer, std::size_t bytes, float multiplier);

}  // namespace stepgate::bench

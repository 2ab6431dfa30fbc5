// Element-wise combination of two buffers: out[i] = first[i] (+) second[i], for every type and
// reduction of the transport.
//
//   const Reducer add(SGT_FLOAT16, SGT_SUM, size);
//   add.combine(out, first, second, count);       // every hop but the last
//   add.combine_last(out, first, second, count);  // the last: SGT_AVG divides here
//
// Rules, the same on every instruction set (and whatever the caller's flush-to-zero bits say):
// - fp16 and bf16 are widened to fp32, combined, and rounded to nearest even at every hop, as rings of
//   16-bit types do everywhere; the average divides the fp32 sum of its last hop and rounds once.
// - fp8 likewise; what is too large for it, an infinity too, becomes its largest finite value, as in NCCL.
// - a NaN in a sum, product or average is a NaN, always the same quiet one, so that the order of operands
//   cannot show in the bits. Maximum and minimum drop a NaN if the other operand is a number (IEEE fmax,
//   and what NCCL does). max(-0, +0) is whichever came first.
// - integers wrap around; their average truncates towards zero.
// out may be first or second, exactly. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/ucx/transport.h"

namespace stepgate::transport {

// 0 for an unknown type.
size_t width_of(sgt_type type);

// out[i] = in[i] * *scalar, rounded as a product of two ranks is. The type is valid; out may be in.
void scale_elements(void* out, const void* in, const void* scalar, size_t count, sgt_type type);

class Reducer {
 public:
  // Type and reduction must be valid; size is the number of ranks that an average divides by.
  Reducer(sgt_type type, sgt_reduction reduction, int size);

  size_t width() const { return width_; }
  // Another number for every type and reduction: what ranks compare to see that they agree.
  uint32_t kind() const { return kind_; }
  void combine(void* out, const void* first, const void* second, size_t count) const;
  void combine_last(void* out, const void* first, const void* second, size_t count) const;

  using Kernel = void (*)(void* out, const void* first, const void* second, size_t count, int size);

 private:
  size_t width_;
  int size_;
  uint32_t kind_;
  Kernel hop_;
  Kernel last_;
};

}  // namespace stepgate::transport

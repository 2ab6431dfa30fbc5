// Apply: one pass that multiplies gradients by the decided multiplier, in place, or from fp16 and bf16
// into fp32. Reads the decision from device memory, and does nothing where there is nothing to do.
//
// Thread: every thread of the grid for itself. Ownership: nobody else touches data or out. Device code.
#pragma once

#include <cstdint>

#include "collectives/core/gate_block.h"
#include "collectives/device/cuda/kernels/arguments.h"
#include "collectives/device/cuda/kernels/intrinsics.h"
#include "collectives/device/cuda/kernels/layout.h"
#include "collectives/device/cuda/kernels/tuning.h"

namespace stepgate::cuda {

// One element of a stored type: From and To are its bits before and after.
struct ApplyFp32 {
  using From = std::uint32_t;
  using To = std::uint32_t;
  static STEPGATE_DEVICE To product(From x, float m) { return bits_of_float(float_from_bits(x) * m); }
};
struct ApplyFp64 {
  using From = std::uint64_t;
  using To = std::uint64_t;
  static STEPGATE_DEVICE To product(From x, float m) {
    return bits_of_double(double_from_bits(x) * static_cast<double>(m));
  }
};
struct ApplyFp16 {
  using From = std::uint16_t;
  using To = std::uint16_t;
  static STEPGATE_DEVICE To product(From x, float m) {
    return static_cast<To>(half_from_float(float_from_low_half(x) * m));
  }
  static STEPGATE_DEVICE std::uint32_t product_pair(std::uint32_t w, float m) {
    return halves_from_floats(float_from_low_half(w) * m, float_from_high_half(w) * m);
  }
};
struct ApplyBf16 {
  using From = std::uint16_t;
  using To = std::uint16_t;
  static STEPGATE_DEVICE To product(From x, float m) {
    return static_cast<To>(bfloat_from_float(float_from_bits(std::uint32_t{x} << 16) * m));
  }
  static STEPGATE_DEVICE std::uint32_t product_pair(std::uint32_t w, float m) {
    return bfloats_from_floats(float_from_bits(w << 16) * m, float_from_bits(w & 0xffff0000u) * m);
  }
};
struct WidenFp16 {
  using From = std::uint16_t;
  using To = std::uint32_t;
  static STEPGATE_DEVICE To product(From x, float m) { return bits_of_float(float_from_low_half(x) * m); }
};
struct WidenBf16 {
  using From = std::uint16_t;
  using To = std::uint32_t;
  static STEPGATE_DEVICE To product(From x, float m) {
    return bits_of_float(float_from_bits(std::uint32_t{x} << 16) * m);
  }
};

// What one 16-byte load holds, and its products.
template <class Op>
struct ApplyVector {
  static constexpr std::uint32_t kElements = 16 / sizeof(typename Op::From);
  struct alignas(16) In {
    typename Op::From x[kElements];
  };
  struct alignas(16) Out {
    typename Op::To x[kElements];
  };
  static STEPGATE_DEVICE Out product(const In& v, float m) {
    Out r;
#pragma unroll
    for (std::uint32_t j = 0; j < kElements; ++j) r.x[j] = Op::product(v.x[j], m);
    return r;
  }
};

struct GridThread {
  std::uint64_t index;
  std::uint64_t threads;
};
STEPGATE_DEVICE GridThread grid_thread() {
  return {std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, std::uint64_t{gridDim.x} * blockDim.x};
}

template <class Op>
STEPGATE_DEVICE void apply_elements(const typename Op::From* from, typename Op::To* to, std::uint32_t begin,
                                    std::uint32_t end, float m) {
#pragma unroll 1
  for (std::uint32_t i = begin + threadIdx.x; i < end; i += blockDim.x) to[i] = Op::product(from[i], m);
}

// All loads of a turn before the first store: `to` may be `from`, so the compiler may not reorder them.
template <class Op>
STEPGATE_DEVICE void apply_vectors(const typename ApplyVector<Op>::In* from,
                                   typename ApplyVector<Op>::Out* to, std::uint32_t vectors, float m) {
  constexpr std::uint32_t kLoads = kApplyTuning.loads_in_flight;
  std::uint32_t i = threadIdx.x;
#pragma unroll 1
  for (; i + (kLoads - 1) * blockDim.x < vectors; i += kLoads * blockDim.x) {
    typename ApplyVector<Op>::In v[kLoads];
#pragma unroll
    for (std::uint32_t k = 0; k < kLoads; ++k) v[k] = from[i + k * blockDim.x];
#pragma unroll
    for (std::uint32_t k = 0; k < kLoads; ++k) to[i + k * blockDim.x] = ApplyVector<Op>::product(v[k], m);
  }
#pragma unroll 1
  for (; i < vectors; i += blockDim.x) to[i] = ApplyVector<Op>::product(from[i], m);
}

// Elements before the first 16-byte boundary of `from`, at most `count`.
template <class Element>
STEPGATE_DEVICE std::uint32_t head_elements(const Element* from, std::uint32_t count) {
  const auto over = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(from) % 16);
  const std::uint32_t head = over == 0 ? 0 : (16 - over) / static_cast<std::uint32_t>(sizeof(Element));
  return head < count ? head : count;
}

template <class Op>
STEPGATE_DEVICE void apply_chunk(const typename Op::From* from, typename Op::To* to, std::uint32_t count,
                                 float m) {
  using Vector = ApplyVector<Op>;
  const std::uint32_t head = head_elements(from, count);
  if (reinterpret_cast<std::uintptr_t>(to + head) % 16 != 0) return apply_elements<Op>(from, to, 0, count, m);
  const std::uint32_t vectors = (count - head) / Vector::kElements;
  apply_elements<Op>(from, to, 0, head, m);
  apply_vectors<Op>(reinterpret_cast<const typename Vector::In*>(from + head),
                    reinterpret_cast<typename Vector::Out*>(to + head), vectors, m);
  apply_elements<Op>(from, to, head + vectors * Vector::kElements, count, m);
}

// Blocks take chunks in turn. `kOut`: out of place.
template <class Op, bool kOut>
STEPGATE_DEVICE void apply_chunks(const ApplyArguments& a, float m) {
#pragma unroll 1
  for (std::uint32_t chunk = blockIdx.x; chunk < a.chunk_count; chunk += gridDim.x) {
    const std::uint32_t i =
        last_not_above(a.piece_count, chunk, [&a](std::uint32_t p) { return a.first_chunk[p]; });
    const ApplyPiece& piece = a.piece[i];
    const std::uint64_t at = (chunk - a.first_chunk[i]) * kApplyChunk;
    const std::uint64_t left = piece.count - at;
    auto* from = static_cast<typename Op::From*>(piece.data) + at;
    auto* to = static_cast<typename Op::To*>(kOut ? piece.out : piece.data) + at;
    apply_chunk<Op>(from, to, static_cast<std::uint32_t>(left < kApplyChunk ? left : kApplyChunk), m);
  }
}

template <class Op>
STEPGATE_DEVICE void apply_in_place(const ApplyArguments& a) {
  const float m = a.outputs->multiplier;
  if (a.outputs->found_inf != 0.0f || m == 1.0f) return;
  apply_chunks<Op, false>(a, m);
}

template <class Op>
STEPGATE_DEVICE void apply_out_of_place(const ApplyArguments& a) {
  if (a.outputs->found_inf == 0.0f) apply_chunks<Op, true>(a, a.outputs->multiplier);
}

}  // namespace stepgate::cuda

// Apply: one pass that multiplies gradients by the decided multiplier, in place, or from fp16 and bf16
// into fp32. Reads the decision from device memory, and does nothing where there is nothing to do.
//
// Thread: every thread of the grid for itself. Ownership: nobody else touches data or out. Device code.
#pragma once

#include <cstdint>

#include "collectives/core/gate_block.h"
#include "collectives/device/cuda/kernels/arguments.h"
#include "collectives/device/cuda/kernels/intrinsics.h"
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
};
struct ApplyBf16 {
  using From = std::uint16_t;
  using To = std::uint16_t;
  static STEPGATE_DEVICE To product(From x, float m) {
    return static_cast<To>(bfloat_from_float(float_from_bits(std::uint32_t{x} << 16) * m));
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
STEPGATE_DEVICE void apply_elements(const typename Op::From* from, typename Op::To* to, std::uint64_t begin,
                                    std::uint64_t end, float m) {
  const GridThread t = grid_thread();
#pragma unroll 1
  for (std::uint64_t i = begin + t.index; i < end; i += t.threads) to[i] = Op::product(from[i], m);
}

// All loads of a turn before the first store: `to` may be `from`, so the compiler may not reorder them.
template <class Op>
STEPGATE_DEVICE void apply_vectors(const typename ApplyVector<Op>::In* from,
                                   typename ApplyVector<Op>::Out* to, std::uint64_t vectors, float m) {
  constexpr std::uint32_t kLoads = kApplyTuning.loads_in_flight;
  const GridThread t = grid_thread();
  std::uint64_t i = t.index;
#pragma unroll 1
  for (; i + (kLoads - 1) * t.threads < vectors; i += kLoads * t.threads) {
    typename ApplyVector<Op>::In v[kLoads];
#pragma unroll
    for (std::uint32_t k = 0; k < kLoads; ++k) v[k] = from[i + k * t.threads];
#pragma unroll
    for (std::uint32_t k = 0; k < kLoads; ++k) to[i + k * t.threads] = ApplyVector<Op>::product(v[k], m);
  }
#pragma unroll 1
  for (; i < vectors; i += t.threads) to[i] = ApplyVector<Op>::product(from[i], m);
}

// Elements before the first 16-byte boundary of `from`, at most `count`.
template <class Element>
STEPGATE_DEVICE std::uint64_t head_elements(const Element* from, std::uint64_t count) {
  const std::uint64_t over = reinterpret_cast<std::uintptr_t>(from) % 16;
  const std::uint64_t head = over == 0 ? 0 : (16 - over) / sizeof(Element);
  return head < count ? head : count;
}

template <class Op>
STEPGATE_DEVICE void apply_all(const typename Op::From* from, typename Op::To* to, std::uint64_t count,
                               float m) {
  using Vector = ApplyVector<Op>;
  const std::uint64_t head = head_elements(from, count);
  if (reinterpret_cast<std::uintptr_t>(to + head) % 16 != 0) return apply_elements<Op>(from, to, 0, count, m);
  const std::uint64_t vectors = (count - head) / Vector::kElements;
  apply_elements<Op>(from, to, 0, head, m);
  apply_vectors<Op>(reinterpret_cast<const typename Vector::In*>(from + head),
                    reinterpret_cast<typename Vector::Out*>(to + head), vectors, m);
  apply_elements<Op>(from, to, head + vectors * Vector::kElements, count, m);
}

template <class Op>
STEPGATE_DEVICE void apply_in_place(const ApplyArguments& a) {
  const float m = a.outputs->multiplier;
  if (a.outputs->found_inf != 0.0f || m == 1.0f) return;
  auto* data = static_cast<typename Op::From*>(a.data);
  apply_all<Op>(data, data, a.count, m);
}

template <class Op>
STEPGATE_DEVICE void apply_out_of_place(const ApplyArguments& a) {
  if (a.outputs->found_inf != 0.0f) return;
  apply_all<Op>(static_cast<const typename Op::From*>(a.data), static_cast<typename Op::To*>(a.out), a.count,
                a.outputs->multiplier);
}

}  // namespace stepgate::cuda

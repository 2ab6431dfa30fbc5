// Compiled once per instruction set (Highway's foreach_target); plain loops that the compiler vectorises, but
// for the conversions of fp16.
#include "collectives/ucx/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/ucx/reduce.cc"
#include <hwy/foreach_target.h>
// Highway comes after it by its own rule.
#include <hwy/highway.h>

#include <cstring>
#include <limits>
#include <type_traits>

#include "collectives/ucx/fp8-inl.h"
#include "collectives/ucx/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stepgate::transport::HWY_NAMESPACE {

// A type as it is stored, and as it is computed with.
template <typename T>
struct Plain {
  using Stored = T;
  using Wide = T;
  static Wide load(Stored v) { return v; }
  static Stored store(Wide v) { return v; }
};
struct Half {
  using Stored = uint16_t;
  using Wide = float;
  static Wide load(Stored v) { return half_to_float(v); }
  static Stored store(Wide v) { return float_to_half(v); }
};
struct Bfloat {
  using Stored = uint16_t;
  using Wide = float;
  static Wide load(Stored v) { return bfloat_to_float(v); }
  static Stored store(Wide v) { return float_to_bfloat(v); }
};

struct E4m3 {
  using Stored = uint8_t;
  using Wide = float;
  static Wide load(Stored v) { return e4m3_to_float(v); }
  static Stored store(Wide v) { return float_to_fp8(v, kE4m3); }
};
struct E5m2 {
  using Stored = uint8_t;
  using Wide = float;
  static Wide load(Stored v) { return e5m2_to_float(v); }
  static Stored store(Wide v) { return float_to_fp8(v, kE5m2); }
};

// std::isnan would keep g++ from vectorising the loops.
template <typename W>
bool is_nan(W v) {
  return v != v;  // NOLINT(misc-redundant-expression): a NaN is what differs from itself
}

template <typename W>
W quiet(W v) {
  if constexpr (std::is_floating_point_v<W>) return is_nan(v) ? std::numeric_limits<W>::quiet_NaN() : v;
  return v;
}

// Iterations of the loop that follows never depend on each other.
#if defined(__clang__)
#define STEPGATE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define STEPGATE_INDEPENDENT _Pragma("GCC ivdep")
#endif

// Integers wrap: computed unsigned, and at least as wide as unsigned so that no promotion goes signed.
template <typename W>
using Modular = std::common_type_t<std::make_unsigned_t<W>, unsigned>;

struct Sum {
  template <typename W>
  static W apply(W a, W b, int) {
    if constexpr (std::is_floating_point_v<W>)
      return quiet(a + b);
    else
      return static_cast<W>(Modular<W>(a) + Modular<W>(b));
  }
};
struct Prod {
  template <typename W>
  static W apply(W a, W b, int) {
    if constexpr (std::is_floating_point_v<W>)
      return quiet(a * b);
    else
      return static_cast<W>(Modular<W>(a) * Modular<W>(b));
  }
};
struct Max {
  template <typename W>
  static W apply(W a, W b, int) {
    return quiet(b > a || is_nan(a) ? b : a);
  }
};
struct Min {
  template <typename W>
  static W apply(W a, W b, int) {
    return quiet(b < a || is_nan(a) ? b : a);
  }
};
struct Avg {
  template <typename W>
  static W apply(W a, W b, int size) {
    const W sum = Sum::apply(a, b, size);
    if constexpr (std::is_unsigned_v<W> && sizeof(W) >= sizeof(int))
      return sum / static_cast<W>(size);
    else
      return static_cast<W>(sum / size);
  }
};

template <typename Type, typename Op>
void combine(void* out, const void* first, const void* second, size_t count, int size) {
  using Stored = typename Type::Stored;
  auto* o = static_cast<Stored*>(out);
  const auto* a = static_cast<const Stored*>(first);
  const auto* b = static_cast<const Stored*>(second);
  // Out is either operand or apart from both.
  STEPGATE_INDEPENDENT
  for (size_t i = 0; i < count; ++i) o[i] = Type::store(Op::apply(Type::load(a[i]), Type::load(b[i]), size));
}

// out[i] = in[i] * *scalar
template <typename Type>
void scale_by(void* out, const void* in, const void* scalar, size_t count, int) {
  using Stored = typename Type::Stored;
  auto* o = static_cast<Stored*>(out);
  const auto* a = static_cast<const Stored*>(in);
  Stored factor;
  std::memcpy(&factor, scalar, sizeof factor);  // any place will do
  const auto wide = Type::load(factor);
  STEPGATE_INDEPENDENT
  for (size_t i = 0; i < count; ++i) o[i] = Type::store(Prod::apply(Type::load(a[i]), wide, 1));
}

// g++ 12 does not vectorise the fp16 conversions: where the hardware converts, Highway does, block by block.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Halves = hn::Rebind<hwy::float16_t, Floats>;

void widen(const uint16_t* in, float* out, size_t count) {
  const Floats f;
  const Halves h;
  size_t i = 0;
  for (; i + hn::Lanes(f) <= count; i += hn::Lanes(f))
    hn::StoreU(hn::PromoteTo(f, hn::LoadU(h, reinterpret_cast<const hwy::float16_t*>(in + i))), f, out + i);
  for (; i < count; ++i) out[i] = half_to_float(in[i]);
}

void narrow(const float* in, uint16_t* out, size_t count) {
  const Floats f;
  const Halves h;
  size_t i = 0;
  for (; i + hn::Lanes(f) <= count; i += hn::Lanes(f))
    hn::StoreU(hn::DemoteTo(h, hn::LoadU(f, in + i)), h, reinterpret_cast<hwy::float16_t*>(out + i));
  for (; i < count; ++i) out[i] = float_to_half(in[i]);
}

template <typename Op>
void combine_halves(void* out, const void* first, const void* second, size_t count, int size) {
  constexpr size_t kBlock = 512;
  float a[kBlock], b[kBlock];
  for (size_t i = 0; i < count; i += kBlock) {
    const size_t n = count - i < kBlock ? count - i : kBlock;
    widen(static_cast<const uint16_t*>(first) + i, a, n);
    widen(static_cast<const uint16_t*>(second) + i, b, n);
    combine<Plain<float>, Op>(a, a, b, n, size);
    narrow(a, static_cast<uint16_t*>(out) + i, n);
  }
}
#else
template <typename Op>
void combine_halves(void* out, const void* first, const void* second, size_t count, int size) {
  combine<Half, Op>(out, first, second, count, size);
}
#endif

// Pick::of<Type>() for the type's number.
template <typename Pick>
Reducer::Kernel for_type(sgt_type type) {
  switch (type) {
    case SGT_INT8: return Pick::template of<Plain<int8_t>>();
    case SGT_UINT8: return Pick::template of<Plain<uint8_t>>();
    case SGT_INT32: return Pick::template of<Plain<int32_t>>();
    case SGT_UINT32: return Pick::template of<Plain<uint32_t>>();
    case SGT_INT64: return Pick::template of<Plain<int64_t>>();
    case SGT_UINT64: return Pick::template of<Plain<uint64_t>>();
    case SGT_FLOAT16: return Pick::template of<Half>();
    case SGT_BFLOAT16: return Pick::template of<Bfloat>();
    case SGT_FLOAT32: return Pick::template of<Plain<float>>();
    case SGT_FLOAT64: return Pick::template of<Plain<double>>();
    case SGT_FLOAT8E4M3: return Pick::template of<E4m3>();
    case SGT_FLOAT8E5M2: return Pick::template of<E5m2>();
  }
  return nullptr;
}

template <typename Op>
struct Combining {
  template <typename Type>
  static Reducer::Kernel of() {
    if constexpr (std::is_same_v<Type, Half>)
      return &combine_halves<Op>;
    else
      return &combine<Type, Op>;
  }
};

struct Scaling {
  template <typename Type>
  static Reducer::Kernel of() {
    return &scale_by<Type>;
  }
};

template <typename Op>
Reducer::Kernel kernel_for(sgt_type type) {
  return for_type<Combining<Op>>(type);
}

Reducer::Kernel find_scaling(sgt_type type) {
  return for_type<Scaling>(type);
}

Reducer::Kernel find_kernel(sgt_type type, sgt_reduction reduction) {
  switch (reduction) {
    case SGT_SUM: return kernel_for<Sum>(type);
    case SGT_PROD: return kernel_for<Prod>(type);
    case SGT_MAX: return kernel_for<Max>(type);
    case SGT_MIN: return kernel_for<Min>(type);
    case SGT_AVG: return kernel_for<Avg>(type);
  }
  return nullptr;
}

}  // namespace stepgate::transport::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace stepgate::transport {
namespace {

HWY_EXPORT(find_kernel);
HWY_EXPORT(find_scaling);

// The job may run with flush-to-zero; ranks that differ in it would differ in bits.
class DefaultFloats {
 public:
#if defined(__x86_64__)
  DefaultFloats() : before_(_mm_getcsr()) {
    _mm_setcsr(0x1f80);
  }
  ~DefaultFloats() {
    _mm_setcsr(before_);
  }

 private:
  unsigned before_;
#endif
};

}  // namespace

size_t width_of(sgt_type type) {
  switch (type) {
    case SGT_INT8:
    case SGT_UINT8:
    case SGT_FLOAT8E4M3:
    case SGT_FLOAT8E5M2: return 1;
    case SGT_FLOAT16:
    case SGT_BFLOAT16: return 2;
    case SGT_INT32:
    case SGT_UINT32:
    case SGT_FLOAT32: return 4;
    case SGT_INT64:
    case SGT_UINT64:
    case SGT_FLOAT64: return 8;
  }
  return 0;
}

Reducer::Reducer(sgt_type type, sgt_reduction reduction, int size)
    : width_(width_of(type)),
      size_(size),
      kind_(static_cast<uint32_t>(type) << 8 | static_cast<uint32_t>(reduction)),
      hop_(HWY_DYNAMIC_DISPATCH(find_kernel)(type, reduction == SGT_AVG ? SGT_SUM : reduction)),
      last_(HWY_DYNAMIC_DISPATCH(find_kernel)(type, reduction)) {}

void Reducer::combine(void* out, const void* first, const void* second, size_t count) const {
  [[maybe_unused]] const DefaultFloats floats;
  hop_(out, first, second, count, size_);
}

void Reducer::combine_last(void* out, const void* first, const void* second, size_t count) const {
  [[maybe_unused]] const DefaultFloats floats;
  last_(out, first, second, count, size_);
}

void scale_elements(void* out, const void* in, const void* scalar, size_t count, sgt_type type) {
  [[maybe_unused]] const DefaultFloats floats;
  HWY_DYNAMIC_DISPATCH(find_scaling)(type)(out, in, scalar, count, 1);
}

}  // namespace stepgate::transport
#endif  // HWY_ONCE

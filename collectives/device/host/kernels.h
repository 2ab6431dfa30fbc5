// The inner loops of HostDevice as a table of functions, one table per instruction set. All tables
// give the same bits; they differ in speed alone.
//
// Thread: any; the functions hold no state. Order: the caller has set the default floating-point
// environment (fp_environment.h). Ownership: buffers are the caller's; a function reads and writes
// exactly the elements it was given, at any alignment.
#pragma once

#include <cstdint>
#include <span>

#include "collectives/core/element_type.h"
#include "collectives/device/host/thresholds.h"

namespace stepgate::device::host {

// The types that the host multiplies, in the order of ElementType's first values; scans read all of them.
inline constexpr std::uint32_t kMultipliedTypes = 4;
constexpr bool is_multiplied(ElementType t) {
  return static_cast<std::uint32_t>(t) < kMultipliedTypes;
}

// First look at a unit of at most 8,192 elements. squares is right when the maximum says that fp32
// columns hold it (fp64 columns for fp64); otherwise a second look gives it.
struct UnitLook {
  double squares = 0;
  std::uint64_t maximum = 0;  // largest magnitude, inf and NaN included
  std::uint32_t nonzero = 0;
  std::uint32_t normal = 0;  // magnitudes >= normal_from, inf and NaN included
};

// Second look: what the first cannot tell apart. Squares in fp64 columns.
struct UnitDetail {
  double squares = 0;         // finite elements only
  std::uint64_t maximum = 0;  // finite elements only
  std::uint32_t inf = 0;
  std::uint32_t nan = 0;
  std::uint32_t overranges = 0;
};

using LookFn = UnitLook (*)(const unsigned char* unit, std::uint32_t count,
                            std::uint64_t normal_from) noexcept;
using DetailFn = UnitDetail (*)(const unsigned char* unit, std::uint32_t count,
                                const Thresholds& limits) noexcept;
// `to` may be `from`; otherwise the two do not overlap.
using MultiplyFn = void (*)(const unsigned char* from, unsigned char* to, std::uint64_t count,
                            float multiplier) noexcept;

struct Kernels {
  const char* name = "";
  LookFn look[kElementTypeCount] = {};
  DetailFn detail[kElementTypeCount] = {};
  MultiplyFn multiply[kMultipliedTypes] = {};          // stored type to stored type
  MultiplyFn multiply_to_fp32[kMultipliedTypes] = {};  // fp16 and bf16 only, else nullptr
};

// Plain scalar code: what every other table is tested against, and what runs without hardware FMA.
const Kernels& reference_kernels() noexcept;

// The fastest table of this machine, chosen once.
const Kernels& best_kernels() noexcept;

// Every table that this machine can run, the reference first. For tests and benchmarks.
std::span<const Kernels* const> runnable_kernels() noexcept;

}  // namespace stepgate::device::host

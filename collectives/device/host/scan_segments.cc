#include "collectives/device/host/scan_segments.h"

#include <algorithm>
#include <cstdint>

#include "collectives/core/grad_stats.h"
#include "collectives/device/host/float_bits.h"

namespace stepgate::device::host {
namespace {

// One type's functions and limits, picked once per scan.
struct Plan {
  LookFn look;
  DetailFn detail;
  const Thresholds* limits;
  double (*value)(std::uint64_t magnitude);
  std::size_t element_bytes;
};

template <ElementType T>
double value_of(std::uint64_t magnitude) {
  return Format<T>::widen(static_cast<typename Format<T>::Bits>(magnitude));
}

template <ElementType T>
Plan plan_for(const Kernels& kernels, ElementType compute) {
  constexpr auto kIndex = static_cast<std::uint32_t>(T);
  return {kernels.look[kIndex], kernels.detail[kIndex], &thresholds<T>(compute), value_of<T>,
          sizeof(typename Format<T>::Bits)};
}

Plan make_plan(const Kernels& kernels, ElementType stored, ElementType compute) {
  switch (stored) {
    case ElementType::kFp16: return plan_for<ElementType::kFp16>(kernels, compute);
    case ElementType::kBf16: return plan_for<ElementType::kBf16>(kernels, compute);
    case ElementType::kFp64: return plan_for<ElementType::kFp64>(kernels, compute);
    case ElementType::kFp8E4M3: return plan_for<ElementType::kFp8E4M3>(kernels, compute);
    case ElementType::kFp8E5M2: return plan_for<ElementType::kFp8E5M2>(kernels, compute);
    default: return plan_for<ElementType::kFp32>(kernels, compute);
  }
}

bool needs_fp64_squares(std::uint64_t maximum, const Thresholds& limits) {
  return maximum >= limits.squares_above || (maximum != 0 && maximum < limits.squares_from);
}

// Adds one unit to stats (all but sum_squares and abs_max); returns its squares, raises maximum.
double scan_unit(const Plan& plan, const unsigned char* unit, std::uint32_t count, GradStats& stats,
                 std::uint64_t& maximum) {
  const Thresholds& limits = *plan.limits;
  const UnitLook seen = plan.look(unit, count, limits.normal_from);
  stats.zeros += count - seen.nonzero;
  stats.subnormals += seen.nonzero - seen.normal;
  const bool redo = needs_fp64_squares(seen.maximum, limits);
  if (!redo && seen.maximum < limits.over_from) {
    maximum = std::max(maximum, seen.maximum);
    return seen.squares;
  }
  const UnitDetail found = plan.detail(unit, count, limits);
  stats.inf += found.inf;
  stats.nan += found.nan;
  stats.overranges += found.overranges;
  maximum = std::max(maximum, found.maximum);
  return redo ? found.squares : seen.squares;
}

GradStats scan_segment(const Plan& plan, const Segment& segment) {
  GradStats stats;
  stats.elements = segment.count;
  PairwiseSum units;
  std::uint64_t maximum = 0;
  const auto* data = static_cast<const unsigned char*>(segment.data);
  for (std::uint64_t start = 0; start < segment.count; start += kUnitElements) {
    const std::uint64_t count = std::min(kUnitElements, segment.count - start);
    units.push(scan_unit(plan, data + start * plan.element_bytes, static_cast<std::uint32_t>(count), stats,
                         maximum));
  }
  stats.sum_squares = units.total();
  stats.abs_max = plan.value(maximum);
  return stats;
}

// Multiplies what has been counted, and counts what the stored type could not hold of it.
void unscale_segment(const Kernels& kernels, const Plan& plan, const Scan& job, const Segment& segment,
                     GradStats& stats) {
  auto* data = static_cast<unsigned char*>(const_cast<void*>(segment.data));
  kernels.multiply[static_cast<std::uint32_t>(job.stored)](data, data, segment.count,
                                                           static_cast<float>(1.0 / *job.unscale_by));
  stats.inf = scan_segment(plan, segment).inf;
}

}  // namespace

void scan_segments(const Kernels& kernels, const Scan& job) noexcept {
  const Plan plan = make_plan(kernels, job.stored, job.compute);
  GradStats total;
  PairwiseSum squares;
  std::int32_t first_bad = -1;
  for (std::size_t i = 0; i < job.segments.size(); ++i) {
    GradStats stats = scan_segment(plan, job.segments[i]);
    if (job.unscale_by != nullptr) unscale_segment(kernels, plan, job, job.segments[i], stats);
    add_counts(total, stats);
    squares.push(stats.sum_squares);
    if (first_bad < 0 && (stats.inf | stats.nan) != 0) first_bad = static_cast<std::int32_t>(i);
    if (job.per_segment != nullptr) job.per_segment[i] = stats;
  }
  total.sum_squares = squares.total();
  if (job.total != nullptr) *job.total = total;
  if (job.first_bad != nullptr) *job.first_bad = first_bad;
}

}  // namespace stepgate::device::host

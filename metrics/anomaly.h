// Anomaly: one finding of a detector, and the thresholds of all detectors as plain data.
//
// Thread: any; plain data, owned by whoever holds it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "collectives/core/step_summary.h"

namespace stepgate::metrics {

// Label `kind` of stepgate_anomalies_total; index into kAnomalyKindNames.
enum class AnomalyKind : std::size_t {
  kOverflow = 0,
  kNan = 1,
  kUnderflow = 2,
  kScaleFloor = 3,
  kConsecutiveSkips = 4,
  kDivergence = 5,
  kSilentRank = 6,  // of the plane, on rank 0
  kStagnation = 7,
  kNormSpike = 8,
  kScaleThrash = 9,
};
inline constexpr std::size_t kAnomalyKinds = 10;
inline constexpr std::array<const char*, kAnomalyKinds> kAnomalyKindNames = {
    "overflow",   "nan",         "underflow",  "scale_floor", "consecutive_skips",
    "divergence", "silent_rank", "stagnation", "norm_spike",  "scale_thrash"};

inline constexpr std::uint32_t kNoRange = 0xffffffffu;

struct Anomaly {
  AnomalyKind kind = AnomalyKind::kOverflow;
  std::uint64_t step = 0;
  std::int32_t rank = kOffenderUnknown;  // blamed: a rank, or one of the kOffender constants
  std::uint32_t range = kNoRange;        // where a single range is meant
  double value = 0;                      // what crossed the threshold (see each detector)
};

struct AnomalyThresholds {
  // underflow: the share of zeros and subnormals of a range lies this much above its own average ...
  double underflow_jump = 0.25;
  // ... of at least this many steps ...
  std::uint32_t underflow_history = 8;
  // ... of which the newest weighs this much ...
  double underflow_weight = 0.1;
  // ... while abs-max is at most this: 2^10 times fp16's smallest normal, 2^-14.
  double underflow_abs_max = 0x1p-4;
  // scale_floor: no step of so many was applied (the other cause, the scale at its minimum, has none).
  std::uint32_t floor_window = 100;
  // stagnation: the stored type absorbs this share of the updates of a name.
  double stagnation_share = 0.5;
  // consecutive_skips: more than so many skips in a row.
  std::uint32_t skips_in_row = 10;
  // norm_spike: the norm lies above so many times the median ...
  double spike_factor = 5;
  // ... of this many norms before it ...
  std::uint32_t spike_window = 100;
  // ... of which there must have been so many (or a whole window, where that is less).
  std::uint32_t spike_history = 16;
  // scale_thrash: so many growths of the scale in a row are lost at once ...
  std::uint32_t thrash_growths = 5;
  // ... which is within this share of the interval that a growth takes.
  double thrash_share = 0.1;
};

}  // namespace stepgate::metrics

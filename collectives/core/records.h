// Plain records that leave a step for the publisher thread: StepRecord (a ring) and RangeRecord (a
// table). Device code writes them into mapped host memory, host code reads them without any call.
//
// Order: the writer fills the record, then stores `sequence` with release semantics (device: after a
// system-wide fence). A reader takes the sequence, copies, takes it again and drops the copy when
// the two differ. Single writer, any number of readers, no lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/core/decision.h"
#include "collectives/core/grad_stats.h"
#include "collectives/core/scaler.h"

namespace stepgate {

inline constexpr std::uint32_t kRingRecords = 1024;

struct StepRecord {
  std::uint64_t sequence = 0;  // 1 + index of the record; 0: never written. Odd copies are dropped
  std::uint64_t step = 0;      // counts from 1
  std::uint32_t set = 0;
  std::uint32_t rank = 0;
  Decision decision;
  ScalerState scaler;              // after this step's update where the update ran, else before
  GradStats local_sum;             // this rank's reduced ranges together
  std::uint64_t sum_elements = 0;  // over all ranks
  std::uint64_t sum_inf = 0;
  std::uint64_t sum_nan = 0;
  std::uint64_t sum_local_inf = 0;
  std::uint64_t sum_local_nan = 0;
  std::uint64_t local_inf = 0;  // this rank, before the reduction
  std::uint64_t local_nan = 0;
  double timestamp_seconds = 0;  // Unix time; 0 where the writer has no clock
  double scan_seconds = 0;       // spent scanning in this step; 0 unknown
  double agreement_seconds = 0;
  ReleaseCause release_cause = ReleaseCause::kDegraded;  // where decision.released says so
  std::uint32_t reserved = 0;
};
static_assert(sizeof(StepRecord) == 280, "StepRecord is mapped memory shared with device code");

// Phases of a range's statistics.
enum class ScanPhase : std::uint32_t { kLocal = 0, kReduced = 1 };

struct RangeRecord {
  std::uint64_t step = 0;   // stamp: the step whose figures these are
  std::uint32_t range = 0;  // index into the gate's range names
  std::uint32_t phase = 0;  // ScanPhase
  GradStats stats;
  std::int32_t first_bad_segment = -1;  // first segment with an inf or NaN, -1 none
  float scale = 0;                      // the loss scale of a foreign scaler in that step; 0 none is known
};
static_assert(sizeof(RangeRecord) == 88, "RangeRecord is mapped memory shared with device code");

}  // namespace stepgate

// The argument of every kernel: one plain struct each, passed by value, the same on host and device.
//
// An argument is frozen when a graph captures the launch. Whatever changes between replays (step
// numbers, scales, outputs) is therefore read from device memory, never from here.
//
// Thread: any; plain data. Ownership: every pointer names memory of the launching device that
// outlives the launch (and, where captured, the graph).
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/core/gate_block.h"
#include "collectives/core/grad_stats.h"
#include "collectives/core/records.h"

namespace stepgate::cuda {

inline constexpr std::uint32_t kWarpLanes = 32;
// Limits of what a block may be; tuning.h stays within them.
inline constexpr std::uint32_t kMaxWarpsPerBlock = 8;
// A group is 2^k neighbouring units of one segment, scanned by one warp. The tree of sums is the same
// for every k, so k is tuning.
inline constexpr std::uint32_t kMaxGroupLog2 = 6;
inline constexpr std::uint32_t kMaxGroupUnits = 1u << kMaxGroupLog2;
// Neighbouring groups that the last of their warps folds into one slot.
inline constexpr std::uint32_t kBundleGroups = 64;

// Every limit of a scan as a magnitude (bits without the sign) of the stored type; limits.h makes it.
struct ScanLimits {
  std::uint64_t infinity = 0;       // the lowest magnitude that is not finite
  std::uint64_t nan_from = 0;       // inf lies below, NaN from here on
  std::uint64_t normal_from = 0;    // 0 < m < this: subnormal of the compute type
  std::uint64_t over_from = 0;      // this <= m < infinity: overrange of the compute type
  std::uint64_t squares_from = 0;   // a unit whose maximum is outside [squares_from, squares_above),
  std::uint64_t squares_above = 0;  // zero excepted, sums its squares in fp64 columns
};

struct ScanSegment {
  const void* data;  // aligned to one element at least
  std::uint64_t count;
};

// At most so many segments, of one range or of several, in one launch. More of them are several launches
// in stream order.
inline constexpr std::uint32_t kSegmentsPerLaunch = 192;

// What one launch has to do with one range. Scratch belongs to one range at a time. Tickets are zero
// before a launch and zero again after it; layout.h says how many of everything there are.
struct ScanRange {
  GradStats* groups;   // one slot per group that the range has in this launch
  GradStats* bundles;  // one slot per bundle
  std::uint32_t* tickets;
  GradStats* segments;            // results, one per segment of the whole range
  GradStats* total;               // the range together; or nullptr
  std::int32_t* first_bad;        // first segment with inf or NaN, else -1; or nullptr
  const std::uint64_t* epoch;     // the step that the results speak of; or nullptr
  std::uint64_t* stamp;           // receives *epoch once the results are there
  std::uint32_t first_segment;    // of this launch's segments
  std::uint32_t segments_before;  // of the range, in earlier launches
  std::uint32_t segment_count;    // of the range, in all launches
  std::uint32_t flags;
};
static_assert(sizeof(ScanRange) == 80, "kernel arguments: host and device agree");

// The last launch of the range: folds all its segments into total and first_bad.
inline constexpr std::uint32_t kFinishesRange = 1;
// Nothing is read and nothing written where *stamp is *epoch already.
inline constexpr std::uint32_t kUnlessStamped = 2;

// Ranges, then segments, then the number of each segment's first group, one behind the other, so that
// few ranges leave room for many segments: layout.h finds them.
inline constexpr std::uint32_t kScanDataBytes = 4016;
struct ScanArguments {
  ScanLimits limits;
  const double* unscale_by;  // in-place kernels alone: they multiply by float(1 / *unscale_by)
  std::uint32_t range_count;
  std::uint32_t segment_count;
  std::uint32_t group_count;
  std::uint32_t group_log2;
  std::uint32_t empty_ranges;  // of these ranges, without a segment
  std::uint32_t reserved;
  alignas(8) unsigned char data[kScanDataBytes];
};
static_assert(sizeof(ScanLimits) == 48 && sizeof(ScanSegment) == 16,
              "kernel arguments: host and device agree");
static_assert(offsetof(ScanArguments, unscale_by) == 48, "kernel arguments: host and device agree");
static_assert(offsetof(ScanArguments, data) == 80, "kernel arguments: host and device agree");
static_assert(sizeof(ScanArguments) == 4096, "a kernel takes 4,096 bytes of arguments at most");

// What so many ranges and segments take of the data.
constexpr std::uint32_t scan_data_bytes(std::uint32_t ranges, std::uint32_t segments) {
  return static_cast<std::uint32_t>(ranges * sizeof(ScanRange) +
                                    segments * (sizeof(ScanSegment) + sizeof(std::uint32_t)));
}
inline constexpr std::uint32_t kRangesPerLaunch = kScanDataBytes / sizeof(ScanRange);
static_assert(scan_data_bytes(1, kSegmentsPerLaunch) <= kScanDataBytes, "one range fills a launch");

// Buffers that one launch multiplies by the same decision, cut into chunks of kApplyChunk elements.
inline constexpr std::uint32_t kApplyPieces = 144;
inline constexpr std::uint64_t kApplyChunk = 16384;
struct ApplyPiece {
  void* data;
  void* out;  // fp32, out of place; or nullptr
  std::uint64_t count;
};
struct ApplyArguments {
  const Outputs* outputs;
  std::uint32_t piece_count;
  std::uint32_t chunk_count;
  ApplyPiece piece[kApplyPieces];
  std::uint32_t first_chunk[kApplyPieces];
};
static_assert(sizeof(ApplyPiece) == 24, "kernel arguments: host and device agree");
static_assert(offsetof(ApplyArguments, first_chunk) == 3472, "kernel arguments: host and device agree");
static_assert(sizeof(ApplyArguments) == 4048, "a kernel takes 4,096 bytes of arguments at most");

// veto, mark_applied (which alone reads `set`).
struct BlockArguments {
  GateBlock* block;
  std::uint32_t set;
  std::uint32_t reserved;
};
static_assert(sizeof(BlockArguments) == 16, "kernel arguments: host and device agree");

struct BeginArguments {
  GateBlock* block;
  RangeSlot* slots;
  GateBlock* mirror;  // mapped host memory; or nullptr
  std::uint32_t slot_count;
  std::uint32_t reserved;
};
static_assert(sizeof(BeginArguments) == 32, "kernel arguments: host and device agree");

struct SummarizeArguments {
  GateBlock* block;
  const RangeSlot* slots;
  double* fields;  // kSummaryFields of them
  std::uint32_t set;
  std::uint32_t slot_count;
  std::uint32_t attributing;
  std::uint32_t veto;
};
static_assert(sizeof(SummarizeArguments) == 40, "kernel arguments: host and device agree");

struct DecideArguments {
  GateBlock* block;
  const double* fields;
  std::uint32_t set;
  std::uint32_t reserved;
};
static_assert(sizeof(DecideArguments) == 24, "kernel arguments: host and device agree");

// records, head, tables, stamps and mirror are mapped host memory. The three times are frozen by a
// capture: pass 0 there.
struct FinishArguments {
  GateBlock* block;
  const double* fields;  // of decide_set
  const RangeSlot* slots;
  StepRecord* records;  // kRingRecords entries
  std::uint64_t* head;
  RangeSlot* table[2];
  std::uint64_t* table_stamps;  // 2 entries; nullptr: no table
  GateBlock* mirror;            // or nullptr
  double timestamp_seconds;
  double scan_seconds;
  double agreement_seconds;
  std::int32_t decide_set;  // below 0: none
  std::uint32_t publish_sets;
  std::uint32_t slot_count;
  std::uint32_t reserved;
};
static_assert(sizeof(FinishArguments) == 112, "kernel arguments: host and device agree");

struct UpdateArguments {
  const void* before;
  const void* after;
  const void* update;
  std::uint64_t count;
  unsigned long long* total;  // the words of an UpdateStats, zero before the launch
};
static_assert(sizeof(UpdateArguments) == 40, "kernel arguments: host and device agree");

// Bytes for device memory that travel in the launch itself.
inline constexpr std::uint32_t kPokeBytes = 3584;
struct PokeArguments {
  void* to;
  std::uint32_t bytes;  // at most kPokeBytes
  std::uint32_t reserved;
  unsigned char data[kPokeBytes];
};
static_assert(sizeof(PokeArguments) == 3600, "a kernel takes 4,096 bytes of arguments at most");

// Layouts in device memory that kernels and host both read.
static_assert(sizeof(SetBlock) == 32 + 64 + 8 * kSummaryFields + 24, "SetBlock: host and device agree");
static_assert(offsetof(GateBlock, scaler) == 88 && offsetof(GateBlock, step) == 136,
              "GateBlock: host and device agree");

}  // namespace stepgate::cuda

// Every kernel of the fatbin and its argument. X(NAME, ARGUMENTS): an extern "C" function that takes
// one ARGUMENTS by value.
#define STEPGATE_CUDA_KERNELS(X)            \
  X(stepgate_scan_fp32, ScanArguments)      \
  X(stepgate_scan_fp16, ScanArguments)      \
  X(stepgate_scan_bf16, ScanArguments)      \
  X(stepgate_scan_fp64, ScanArguments)      \
  X(stepgate_scan_fp8_e4m3, ScanArguments)  \
  X(stepgate_scan_fp8_e5m2, ScanArguments)  \
  X(stepgate_unscale_fp32, ScanArguments)   \
  X(stepgate_unscale_fp16, ScanArguments)   \
  X(stepgate_unscale_bf16, ScanArguments)   \
  X(stepgate_unscale_fp64, ScanArguments)   \
  X(stepgate_apply_fp32, ApplyArguments)    \
  X(stepgate_apply_fp16, ApplyArguments)    \
  X(stepgate_apply_bf16, ApplyArguments)    \
  X(stepgate_apply_fp64, ApplyArguments)    \
  X(stepgate_widen_fp16, ApplyArguments)    \
  X(stepgate_widen_bf16, ApplyArguments)    \
  X(stepgate_absorbed_16, UpdateArguments)  \
  X(stepgate_absorbed_32, UpdateArguments)  \
  X(stepgate_absorbed_64, UpdateArguments)  \
  X(stepgate_begin_step, BeginArguments)    \
  X(stepgate_summarize, SummarizeArguments) \
  X(stepgate_decide, DecideArguments)       \
  X(stepgate_finish_step, FinishArguments)  \
  X(stepgate_veto, BlockArguments)          \
  X(stepgate_mark_applied, BlockArguments)  \
  X(stepgate_poke, PokeArguments)

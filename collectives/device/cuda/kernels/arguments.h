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

// Segments of one launch; more of them are several launches in stream order, of which the last one
// has `finish` set.
inline constexpr std::uint32_t kSegmentsPerLaunch = 192;

// Scratch belongs to one stream at a time. Tickets are zero before the first launch and zero again
// after every launch; layout.h says how many of each there are.
struct ScanArguments {
  GradStats* groups;   // one slot per group of this launch
  GradStats* bundles;  // one slot per bundle
  std::uint32_t* tickets;
  GradStats* segments;         // results, one per segment of the whole range
  GradStats* total;            // the range together; or nullptr
  std::int32_t* first_bad;     // first segment with inf or NaN, else -1; or nullptr
  const std::uint64_t* epoch;  // the step that the results speak of; or nullptr
  std::uint64_t* stamp;        // receives *epoch once the results are there
  ScanLimits limits;
  std::uint32_t first_segment;   // of this launch, counted in the range
  std::uint32_t segment_count;   // of this launch
  std::uint32_t range_segments;  // of the whole range
  std::uint32_t group_count;     // of this launch
  std::uint32_t group_log2;
  std::uint32_t finish;          // fold all segments of the range into total and first_bad
  std::uint32_t unless_stamped;  // nothing is done where *stamp is *epoch already
  std::uint32_t reserved;
  std::uint32_t first_group[kSegmentsPerLaunch];  // per segment; each has one group at least
  ScanSegment segment[kSegmentsPerLaunch];
};
static_assert(sizeof(ScanLimits) == 48 && sizeof(ScanSegment) == 16,
              "kernel arguments: host and device agree");
static_assert(offsetof(ScanArguments, limits) == 64, "kernel arguments: host and device agree");
static_assert(offsetof(ScanArguments, first_segment) == 112, "kernel arguments: host and device agree");
static_assert(offsetof(ScanArguments, first_group) == 144, "kernel arguments: host and device agree");
static_assert(offsetof(ScanArguments, segment) == 912, "kernel arguments: host and device agree");
static_assert(sizeof(ScanArguments) == 3984, "a kernel takes 4,096 bytes of arguments at most");

struct ApplyArguments {
  void* data;
  void* out;  // fp32, out of place; or nullptr
  std::uint64_t count;
  const Outputs* outputs;
};
static_assert(sizeof(ApplyArguments) == 32, "kernel arguments: host and device agree");

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

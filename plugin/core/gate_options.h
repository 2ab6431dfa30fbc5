// GateOptions: what a gate is made from, and the limits of every gate.
//
// Plain values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "collectives/core/gate_block.h"
#include "collectives/device/device.h"
#include "plugin/core/configuration.h"
#include "stepgate/stepgate.h"

namespace stepgate::gate {

#define STEPGATE_TEXT_OF(x) #x
#define STEPGATE_TEXT(x) STEPGATE_TEXT_OF(x)
inline constexpr char kVersionText[] = STEPGATE_TEXT(STEPGATE_VERSION_MAJOR) "." STEPGATE_TEXT(
    STEPGATE_VERSION_MINOR) "." STEPGATE_TEXT(STEPGATE_VERSION_PATCH);

inline constexpr std::uint32_t kMaxRanges = 4096;
inline constexpr std::uint32_t kAnonymousSlots = 64;  // local scans of undeclared send buffers
inline constexpr std::size_t kOffendersKept = 256;
inline constexpr std::size_t kOffendersForPlane = 16384;  // between two looks of the plane
inline constexpr std::size_t kSideStreams = 32;           // with gradients of one step, beside the step's own
// cudaStreamPerThread: one handle for another stream in every thread.
inline const device::Stream kPerThreadStream = reinterpret_cast<device::Stream>(std::uintptr_t{2});
// One message size for every exchange of ours, so that two ranks at different points of the protocol
// still pair up and find out, instead of hanging.
inline constexpr int kExchangeFields = kSummaryFields;

struct GateOptions {
  std::string name = "0";
  int rank = 0, world = 1;
  std::string abstains;  // why this rank votes against every agreement; "": it takes part
  ScalerParams params;
  StepPolicy policy;
  Configuration configuration;
};

}  // namespace stepgate::gate

// simulate_scales(): the scale after each step of a pattern, by the very update that a step runs.
//
//   simulate_scales(default_params(ScalerRule::kTorch), "x..x").scales  // {32768, 32768, 32768, 16384}
//
// Thread: any. Order, lock: none. Ownership: the result owns its values. Host only, allocates.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collectives/core/scaler.h"

namespace stepgate {

struct Simulation {
  std::vector<double> scales;  // one per step; empty when error is not
  std::string error;           // names the bad parameter or the bad character and its place
};

// 'x' is an overflowing step, '.' a good one; anything else, and bad parameters, are refused.
Simulation simulate_scales(const ScalerParams& params, std::string_view pattern);

}  // namespace stepgate

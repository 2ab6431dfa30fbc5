// sample_state: a saved state in which every field says something of its own.
#pragma once

#include "plugin/core/state_blob.h"

namespace stepgate::gate {

inline SavedState sample_state() {
  SavedState s;
  s.params = default_params(ScalerRule::kMegatron);
  s.scaler = initial_state(s.params);
  s.scaler.scale = 0.1;  // no power of two: printed, it must come back
  s.scaler.growth_tracker = 77;
  s.scaler.hysteresis_left = -3;
  s.step = 1234;
  s.applied = 1200;
  s.skipped = 34;
  s.generation = 5;
  s.last_decided = 1233;
  s.last_confirmed = 1232;
  return s;
}

}  // namespace stepgate::gate

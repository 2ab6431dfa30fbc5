// From the C API's structs to checked settings: what a caller of stepgate_gate_create and
// stepgate_declare_range may say, and what a bad value is told.
//
// Pure functions; any thread. Nothing of *out is used after a false return.
#pragma once

#include <string>

#include "plugin/core/configuration.h"
#include "plugin/core/gate.h"
#include "plugin/core/range_table.h"
#include "stepgate/stepgate.h"

namespace stepgate::gate {

// config may be nullptr: all from the configuration.
bool gate_options(const stepgate_gate_config* config, const Configuration& configuration, GateOptions* out,
                  std::string* error);

// Whether there is such a rank; *error names the value and what is allowed.
bool check_place(int world, int rank, std::string* error);

// params: of the gate's scaler, which decide the default compute type.
bool range_spec(const stepgate_range& range, const ScalerParams& params, RangeSpec* out, std::string* error);

}  // namespace stepgate::gate

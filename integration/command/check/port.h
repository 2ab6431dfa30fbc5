// Whether the metrics ports of this machine's ranks are free.
//
// Thread: any. Order, lock: none. Ownership: values; nothing stays bound.
#pragma once

#include <string>
#include <vector>

#include "integration/command/check/findings.h"
#include "plugin/core/configuration.h"

namespace stepgate::command {

// As the settings say: where, from which port on, for how many local ranks.
std::vector<Line> look_at_port(const gate::Configuration& settings);

}  // namespace stepgate::command

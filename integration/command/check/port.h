// Whether the metrics ports of this machine's ranks are free.
//
// Thread: any. Order, lock: none. Ownership: values; nothing stays bound.
#pragma once

#include <string>
#include <vector>

#include "integration/command/check/findings.h"

namespace stepgate::command {

// As the environment says: STEPGATE_METRICS, _ADDR, _PORT and LOCAL_WORLD_SIZE.
std::vector<Line> look_at_port();

}  // namespace stepgate::command

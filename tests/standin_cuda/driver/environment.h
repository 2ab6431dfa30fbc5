// The stand-in's options as a process that knows nothing of it gives them: STEPGATE_STANDIN_DEVICES,
// _DRIVER_VERSION, _GUARD (0 or 1), _DELAY_US, _SEED, and _FAIL=name:index:code (name may be *).
//
// Thread: whichever calls the library first. Read once.
#pragma once

#include "tests/standin_cuda/driver/control.h"

namespace stepgate::standin {

Options options_from_environment();
// Orders the fault that STEPGATE_STANDIN_FAIL names, if it is set.
void fail_from_environment();

}  // namespace stepgate::standin

// Opens libstepgate_core.so, once, on first need: the first communicator or the first stepgate_* call.
// A process that needs neither never opens it and never starts a thread.
//
// Thread: any; the first caller opens, the others wait. A failure is said once on standard error and
// remembered: the job runs on without the plugin.
#pragma once

#include "plugin/core/core_entry.h"

namespace stepgate::shim {

// nullptr when the core cannot be opened.
const CoreTable* load_core() noexcept;
// What load_core has found so far, without opening anything.
const CoreTable* loaded_core() noexcept;
// Why load_core gave nullptr; "" otherwise.
const char* load_error() noexcept;

}  // namespace stepgate::shim
